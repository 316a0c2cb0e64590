import type { Clock } from '../../time/clock.js';
import { Loop } from '../../time/loop.js';
import type { OutboxHooks } from '../../observe/events.js';
import type { OutboxStore, WakeUp } from '../../store/outbox-store.js';

/** Silence after which the listener is put to the test, and how long its own notification may take. */
const SILENCE = 30_000;
const ECHO = 5_000;
/** Connections in a row that were accepted and never heard anything: then it is told, once, and tried at longer intervals. */
const DEAF = 3;
const RARELY = 300_000;
const NOTHING_ARRIVES =
  `no notification arrives, not even our own: ${DEAF} connections in a row accepted LISTEN and heard nothing. What other processes commit is found ` +
  "by polling. Behind a transaction pooler set wakeUp: 'poll', or lead the outbox past it";

/**
 * Hears of commits in other processes. Only a hint: polling works without it. A connection that went dead without a word is found by its
 * silence: a notification of our own must come back. Behind a transaction pooler it never does: `LISTEN` succeeds, in a session of the
 * server that the pooler gives to others.
 */
export class WakeListener {
  readonly loop: Loop;
  private listening: { close(): Promise<void> } | undefined;
  private heard = false;
  private probing = false;
  private deaf = 0;
  private told = false;

  constructor(
    private readonly store: Pick<OutboxStore, 'listen' | 'notify'>,
    clock: Clock,
    private readonly hooks: OutboxHooks,
    private readonly onNotify: (where: WakeUp) => void,
  ) {
    this.loop = new Loop(
      clock,
      () => this.check(),
      (error) => {
        hooks.emit('error', { operation: 'listener', error, retryIn: ECHO });
        return ECHO;
      },
    );
  }

  /** What others send arrives, as far as anybody knows. */
  get hears(): boolean {
    return this.listening !== undefined && this.deaf === 0;
  }

  start(): void {
    this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
    await this.disconnect();
  }

  /** @returns when to look again */
  private async check(): Promise<number> {
    if (this.listening !== undefined && this.probing && !this.heard) await this.replace();
    const alive = this.heard;
    this.heard = this.probing = false;
    if (alive) this.deaf = 0;
    if (this.listening === undefined) {
      if (!(await this.connect())) return RARELY;
    } else if (!alive) {
      await this.store.notify?.();
      this.probing = true; // what failed proves nothing of the listener
      return ECHO;
    }
    return this.deaf < DEAF ? SILENCE : RARELY;
  }

  private async replace(): Promise<void> {
    this.deaf += 1;
    if (this.deaf >= DEAF && !this.told) {
      this.told = true;
      this.hooks.emit('warning', { text: NOTHING_ARRIVES });
    }
    await this.disconnect();
  }

  /** What was committed while nobody listened is found by looking. @returns whether somebody listens now */
  private async connect(): Promise<boolean> {
    let listening: { close(): Promise<void> } | undefined;
    let lost: { readonly error: unknown } | undefined;
    listening = await this.store.listen?.(
      (where = 'ready') => {
        this.heard = true;
        this.onNotify(where);
      },
      (error) => {
        lost = { error };
        if (listening === undefined || this.listening !== listening) return;
        this.listening = undefined;
        this.hooks.emit('error', { operation: 'listener', error, retryIn: 0 });
        this.loop.nudge();
      },
    );
    if (lost !== undefined) throw (lost as { error: unknown }).error;
    if (listening === undefined) return false;
    this.listening = listening;
    for (const where of ['leases', 'ready', 'parked'] as const) this.onNotify(where);
    return true;
  }

  private async disconnect(): Promise<void> {
    const { listening } = this;
    this.listening = undefined;
    await listening?.close().catch(() => {});
  }
}
