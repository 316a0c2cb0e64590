import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { startFile } from '../support/own-process.js';

export interface ShopSettings {
  readonly url: string;
  /** Where it publishes to: a file, or a queue of RabbitMQ. */
  readonly ledger?: string;
  readonly rabbit?: { readonly url: string; readonly queue: string };
  /** `hangs`: for ever; `blocks`: the first publish holds up the event loop until there is a file `<ledger>.go`. */
  readonly publish?: 'hangs' | 'blocks';
  /** Milliseconds. */
  readonly shutdownTimeout: number;
  /** `app.enableShutdownHooks()`. */
  readonly hooks: boolean;
}
/** What such a process tells of itself. */
export interface ShopNews {
  readonly ready?: true;
  readonly handed?: number;
  readonly stopping?: true;
  readonly closed?: true;
  /** With `closed`: the timers that would keep it. */
  readonly timers?: number;
  readonly warning?: string;
  readonly failed?: string;
}

/** A Nest application with a relay in a process of its own. */
export class ShopProcess {
  readonly news: ShopNews[] = [];
  readonly pid: number;

  private constructor(readonly child: ChildProcess) {
    this.pid = child.pid as number;
    child.on('message', (news: ShopNews) => this.news.push(news));
  }

  static async start(settings: ShopSettings): Promise<ShopProcess> {
    const shop = new ShopProcess(startFile('test/processes/shop-process.ts', { SHOP: JSON.stringify(settings) }));
    await shop.heard('ready');
    return shop;
  }

  /** The first news of this kind. Its ceiling says "never": several of them may be starting at once. */
  async heard<K extends keyof ShopNews>(what: K): Promise<NonNullable<ShopNews[K]>> {
    const signal = AbortSignal.timeout(120_000);
    for (;;) {
      const found = this.news.find((one) => one[what] !== undefined)?.[what];
      if (found !== undefined) return found as NonNullable<ShopNews[K]>;
      if (this.ended) throw new Error(`The process ended before it said '${what}'.`);
      await Promise.race([once(this.child, 'message', { signal }), once(this.child, 'exit', { signal })]);
    }
  }

  get ended(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Within a minute, which is less than its lease and its publish timeout. @returns what ended it */
  async end(signal: NodeJS.Signals): Promise<string | null> {
    const exited = this.ended ? undefined : once(this.child, 'exit', { signal: AbortSignal.timeout(60_000) });
    this.child.kill(signal);
    await exited;
    return this.child.signalCode;
  }
}
