import type { Reader } from './read/reader.js';
import { compareSeq } from '../outbox-message.js';
import { endBrokerSide, statusOf } from './broker-side.js';
import { errorText } from '../observe/redact/error-text.js';
import type { FailingOperation } from './database-failures.js';
import type { Deadline } from '../time/deadline.js';
import { FirstConnection } from './publish/first-connection.js';
import type { TransportRelay } from './transport-relay.js';
import { Loop } from '../time/loop.js';
import { difference } from './run-reports.js';
import type { TransportStatus, ReadyKnowledge, RunningRelay, RunReport } from './contracts.js';

/** Milliseconds between two looks at the parked table when nothing is known to fall due, in polls. */
export const PARKED_POLLS = 2;

/** What makes a transport relay turn: one loop that reads what is ready, one that brings back what is parked; or a single pass. */
export class RelayLoops implements RunningRelay {
  readonly readLoop: Loop;
  readonly parkedLoop: Loop;
  readonly firstConnection: FirstConnection;

  constructor(
    readonly relay: TransportRelay,
    /** @returns the delay until the next try */
    readonly failed: (operation: 'fetch' | 'take', error: unknown) => number,
    readonly succeeded: (operation: 'fetch' | 'take') => void,
  ) {
    const { clock } = relay.deps;
    this.firstConnection = new FirstConnection(relay.publisher, relay.outage, relay.deps);
    this.readLoop = new Loop(
      clock,
      () => this.read(),
      (error) => this.loopFailed('fetch', error),
    );
    this.parkedLoop = new Loop(
      clock,
      () => this.take(),
      (error) => this.loopFailed('take', error),
    );
    relay.wakeUps.wake(this.readLoop, this.parkedLoop);
  }

  /** What a stop broke off past its deadline is nobody's error. */
  private loopFailed(operation: 'fetch' | 'take', error: unknown): number {
    return this.relay.kill.signal.aborted ? Infinity : this.failed(operation, error);
  }

  start(): void {
    this.readLoop.start();
    this.parkedLoop.start();
    this.firstConnection.start();
  }

  get holdsAll(): boolean {
    const { open, deps } = this.relay;
    return this.readLoop.running && open.size === deps.leases.settings.buckets;
  }

  nudge(where: 'ready' | 'parked', ms: number): void {
    (where === 'ready' ? this.readLoop : this.parkedLoop).within(ms);
  }

  /** Stops claiming, waits for what is in flight, then closes the transport; past the deadline it is destroyed. */
  async stop(deadline: Deadline): Promise<void> {
    const { relay } = this;
    relay.stopping = true;
    relay.deps.leases.withdraw(relay.deps.id);
    const finish = async (): Promise<void> => {
      await Promise.all([this.readLoop.stop(), this.parkedLoop.stop()]);
      relay.giveUpWaiting();
      await relay.quiet();
    };
    await endBrokerSide(relay, this.firstConnection, finish(), deadline);
  }

  async drain(): Promise<void> {
    while (this.relay.open.size > 0) await this.relay.drain([...this.relay.open]);
  }

  status(): TransportStatus {
    const { open, ledger, parked, reader } = this.relay;
    return {
      ...statusOf(this.relay),
      buckets: [...open].sort((a, b) => a - b),
      buffered: ledger.held - ledger.flight.messages,
      blockedKeys: parked.keys.size,
      onTrial: ledger.trial.suspects.size,
      readAgain: reader.readAgain,
    };
  }

  get knows(): ReadyKnowledge {
    const { reader, deps, room } = this.relay;
    let below: string | undefined; // once for all buckets: it takes a look at all that is known
    return {
      transport: deps.id,
      goneUpTo: (bucket) => goneUpTo(reader, bucket, (below ??= reader.known.below)),
      waitsFor: (seq) => room.left < 1 || reader.known.has(seq),
    };
  }

  failingWrites(): FailingOperation[] {
    const { settler, deps } = this.relay;
    const writes = { settle: settler.successes.failing, park: settler.transitions.failing };
    return Object.entries(writes).flatMap(([operation, failing]) => {
      if (failing === undefined) return [];
      const failingFor = deps.clock.monotonic() - failing.since;
      const error = errorText(failing.error);
      return [{ operation: operation as keyof typeof writes, transport: deps.name, failingFor, error }];
    });
  }

  /**
   * Everything that is ready or due now, until it is settled. With the loops running it only waits for them. Ends where
   * only such as failed are due again already, and after one lease time: a backlog may never end.
   */
  async runPass(): Promise<RunReport> {
    const { counts } = this.relay;
    const before = { ...counts };
    const { clock, options } = this.relay.deps;
    const until = clock.monotonic() + options.lease;
    for (let idle = 0; idle < IDLE_STEPS;) {
      const settled = counts.published + counts.dead;
      const { read, taken, more } = await this.step();
      await this.relay.quiet(until);
      if (this.relay.outage.circuit.allows !== 'all' || clock.monotonic() > until) break;
      if (read > 0 || more || counts.published + counts.dead > settled) idle = 0;
      else if (taken === 0 && this.relay.parked.toContinue.size === 0 && !this.relay.outage.destinations.freeing.isOn)
        break;
      else idle += 1;
    }
    return difference(counts, before);
  }

  /** Reads must not overlap: while the loops run, they do it. */
  private async step(): Promise<{ read: number; taken: number; more: boolean }> {
    if (!this.readLoop.running) {
      const probe = this.relay.outage.asksParked ? await this.relay.parkedOnce() : undefined;
      const { read, more } = await this.relay.readOnce();
      const { taken } = probe ?? (await this.relay.parkedOnce());
      return { read, taken, more };
    }
    await this.readLoop.runNow();
    await this.parkedLoop.runNow();
    return { ...this.lastRead, taken: this.lastTaken };
  }
  private lastRead = { read: 0, more: false };
  private lastTaken = 0;

  private async read(): Promise<number> {
    this.lastRead = await this.relay.readOnce();
    this.succeeded('fetch');
    return this.lastRead.more ? 0 : this.relay.deps.options.pollInterval;
  }

  private async take(): Promise<number> {
    const { taken, nextIn } = await this.relay.parkedOnce();
    this.lastTaken = taken;
    this.succeeded('take');
    if (taken > 0 || this.relay.parked.toContinue.size > 0) return taken > 0 ? 0 : MIN_PAUSE;
    return Math.min(nextIn ?? Infinity, this.relay.deps.options.pollInterval * PARKED_POLLS);
  }
}

/** What is being published lies behind the low-water mark. */
function goneUpTo({ heads, lowWaterMark }: Reader, bucket: number, below: string): string {
  const marks = [heads.get(bucket) ?? '0', lowWaterMark.of(bucket), below];
  return marks.reduce((a, b) => (compareSeq(a, b) <= 0 ? a : b));
}

/** Steps of a pass in which nothing gets through. */
const IDLE_STEPS = 3;
/** While a key that can go on is still busy. */
const MIN_PAUSE = 20;
