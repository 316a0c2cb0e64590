import type { OutboxMessage } from '../../lib/message.js';
import { OutboxTransport, PUBLISHED, type PublishContext, type PublishResult } from '../../lib/publish/transport.js';
import type { History } from './history.js';
import type { SimulatedProcess } from './process.js';
import type { Random, World } from './world.js';

export interface BrokerFaults {
  /** Until then nothing reaches the broker. */
  downUntil: number;
  /** Share of batches whose connection breaks somewhere: some messages arrive, some receipts do not. */
  breaks: number;
  /** Share of batches that stay without an answer until the relay gives up. */
  hangs: number;
}

/** Refuses it this many times: a number in the payload. */
export const refusals = (message: OutboxMessage): number => Number(String(message.payload).split(' ')[1] ?? 0);

/** One process's connection to the broker that all share. What `reset` cuts off does not arrive any more. */
export class SimulatedTransport extends OutboxTransport {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns: boolean;
  /** @internal */ connection = 0;

  constructor(
    readonly world: World,
    readonly random: Random,
    readonly history: History,
    readonly faults: BrokerFaults,
    readonly process: SimulatedProcess,
    atomicRuns = false,
  ) {
    super();
    this.atomicRuns = atomicRuns;
  }

  override async connect(): Promise<void> {
    await this.answer(this.random.between(0.2, 3));
    if (this.world.now < this.faults.downUntil) throw new Error('connection refused');
  }

  override publish(batch: readonly OutboxMessage[], { report }: PublishContext): Promise<void> {
    const { connection } = this;
    const breaksAt = this.random.chance(this.faults.breaks) ? this.random.whole(0, batch.length) : Infinity;
    const hangs = this.random.chance(this.faults.hangs);
    if (breaksAt < Infinity) this.history.fault('connection to the broker breaks', this.process.name);
    if (hangs) this.history.fault('the broker does not answer', this.process.name);
    return new Promise((resolve, reject) => {
      let left = batch.length;
      let delay = 0;
      for (const run of this.runsOf(batch)) {
        delay += this.random.between(0.01, 1);
        // On its way: it arrives whatever becomes of the process, unless the connection is torn down.
        this.world.in(delay, () => {
          if (connection !== this.connection) return;
          const lost = run.at >= breaksAt || this.world.now < this.faults.downUntil;
          const result = lost ? undefined : this.take(run.messages);
          const answer = (): void => {
            if (hangs || connection !== this.connection) return;
            if (result === undefined || run.at === breaksAt - 1) return reject(new Error('connection lost'));
            run.messages.forEach((_, i) => report(run.at + i, result));
            left -= run.messages.length;
            if (left === 0) resolve();
          };
          this.world.in(this.random.between(0.1, 2), answer, this.process);
        });
      }
    });
  }

  override reset(): void {
    this.connection += 1;
  }
  override async close(): Promise<void> {
    this.connection += 1;
  }

  /** @internal Neighbours of one key, where the broker takes them all or none. */
  runsOf(batch: readonly OutboxMessage[]): { at: number; messages: OutboxMessage[] }[] {
    const runs: { at: number; messages: OutboxMessage[] }[] = [];
    batch.forEach((message, at) => {
      const last = runs.at(-1);
      if (this.atomicRuns && last !== undefined && message.key !== null && last.messages[0]?.key === message.key)
        last.messages.push(message);
      else runs.push({ at, messages: [message] });
    });
    return runs;
  }

  /** @internal */ take(run: readonly OutboxMessage[]): PublishResult {
    const bad = run.find((message) => (this.history.fates.get(message.id)?.refused ?? Infinity) < refusals(message));
    if (bad !== undefined) {
      const fate = this.history.fates.get(bad.id);
      this.history.tell(`${this.process.name}: broker refuses ${fate?.name} and ${run.length - 1} with it`);
      if (run.length > 1) return { ok: false, blame: 'collateral', error: new Error('refused with others') };
      if (fate !== undefined) fate.refused += 1;
      return { ok: false, blame: 'message', error: new Error('refused') };
    }
    for (const { id } of run) this.history.taken(id, this.process.name);
    return PUBLISHED;
  }

  /** @internal */ answer(ms: number): Promise<void> {
    return new Promise((resolve) => this.world.in(ms, resolve, this.process));
  }
}
