import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { BucketLeases } from '../claim/bucket-leases.js';
import type { OutboxHooks } from '../observe/events.js';
import { OutboxError } from '../outbox.errors.js';
import type { OutboxTransport } from '../publish/transport.js';
import { DeadLetters } from '../settle/dead-letters.js';
import { LaneLoops } from './lane-loops.js';
import { Lane } from './lane.js';
import { timeOfOne, type LaneDependencies } from './lane.types.js';
import { Loop } from './loop.js';
import type { RelayDependencies, RelayStatus, RunningLane, RunReport } from './relay.js';
import { RowLockLane } from './row-lock-lane.js';

/**
 * Claims, publishes and settles. Injectable; with `relay: 'manual'` it does so when `start`, `runOnce` or `drain` is called.
 */
export class OutboxDispatcher {
  /** Random per start: a lease of an earlier life of this process is somebody else's. @internal */
  owner = '';
  /** @internal */ lanes: RunningLane[] = [];
  /** @internal */ leases: BucketLeases | undefined;
  /** @internal */ running = false;
  /** @internal */ storeDownSince: number | null = null;
  /** @internal */ opening: Promise<void> | undefined;
  /** @internal */ leaseLoop: Loop | undefined;
  /** @internal */ deadLoop: Loop | undefined;
  /** @internal */ pass: Promise<RunReport> | undefined;
  /** @internal */ ending: Promise<void> | undefined;
  /** Calls of `stop`: a start that one of them overtook does not start. @internal */
  stops = 0;
  /** @internal */ transports: ReadonlyMap<string, OutboxTransport> = new Map();

  /** @internal */
  constructor(/** @internal */ readonly relay: RelayDependencies) {}

  /** Starts the loops; resolves when they run, not when there is a lease. */
  async start(): Promise<void> {
    const { stops } = this;
    await this.ending;
    if (stops !== this.stops) return;
    await this.open();
    await this.pass?.catch(() => undefined); // its reads must not overlap those of the loops
    if (this.running || stops !== this.stops) return;
    this.running = true;
    this.leaseLoop?.start();
    for (const lane of this.lanes) lane.start();
    this.deadLoop?.start();
  }

  /**
   * Stops claiming, finishes or gives back what is in flight, frees the leases, closes the transports.
   * Bounded by `shutdownTimeout`; past it, broker connections are destroyed before the leases are freed.
   */
  stop(): Promise<void> {
    this.stops += 1;
    return (this.ending ??= this.end().finally(() => (this.ending = undefined)));
  }

  /** @internal */ async end(): Promise<void> {
    const { clock, options, hooks } = this.relay;
    const startedAt = clock.monotonic();
    const deadline = startedAt + options.shutdownTimeout;
    if (this.opening !== undefined) await this.bounded(deadline, this.opening);
    const { leases, lanes } = this;
    if (leases === undefined) return;
    this.running = false;
    const others = Promise.all([this.pass?.catch(() => undefined), this.deadLoop?.stop()]);
    await Promise.all([this.bounded(deadline, others), ...lanes.map((lane) => lane.stop(deadline))]);
    await this.bounded(deadline + 1_000, this.leaseLoop?.stop() ?? Promise.resolve());
    let released = false;
    const release = leases.releaseAll().then(() => (released = true));
    await this.bounded(Math.max(deadline + 2_000, clock.monotonic() + LAST_WORD), release);
    this.leases = undefined;
    this.lanes = [];
    this.opening = undefined;
    hooks.emit('stopped', { runId: this.owner, released, took: clock.monotonic() - startedAt });
  }

  /**
   * One pass: leases what is free, publishes everything that is ready or due, and waits until that is settled. Gives the
   * leases back unless the loops run. Concurrent calls share one pass.
   */
  runOnce(): Promise<RunReport> {
    return (this.pass ??= this.runPass().finally(() => (this.pass = undefined)));
  }

  /**
   * Passes until one finds nothing. With the loops running it waits for them instead.
   * @param options.timeout milliseconds, default 10 000
   * @throws OutboxError `TIMEOUT`
   */
  async drain({ timeout = 10_000 }: { timeout?: number } = {}): Promise<RunReport> {
    const deadline = this.relay.clock.monotonic() + timeout;
    const total = { published: 0, retried: 0, dead: 0 };
    for (;;) {
      const pass = this.runOnce();
      if (!(await this.bounded(deadline, pass))) {
        throw new OutboxError('TIMEOUT', `The outbox was not empty after ${timeout} ms.`);
      }
      const { published, retried, dead } = await pass;
      total.published += published;
      total.retried += retried;
      total.dead += dead;
      if (published + retried + dead === 0) return total;
    }
  }

  /** A hint that there is work. Synchronous, never throws. */
  nudge(where: 'ready' | 'parked' = 'ready'): void {
    for (const lane of this.lanes) lane.nudge(where);
  }

  /** Whether everything that is committed now is this instance's to publish: nobody else needs to know of it. @internal */
  get holdsAll(): boolean {
    return this.lanes.length === this.relay.transportIds.size && this.lanes.every((lane) => lane.holdsAll);
  }

  /** A hint that another instance left or came. @internal */
  lookAtLeases(): void {
    this.leases?.lookAgain();
    this.leaseLoop?.nudge();
  }

  status(): RelayStatus {
    const { storeDownSince } = this;
    return {
      running: this.running,
      owner: this.owner,
      storeDownFor: storeDownSince === null ? null : this.relay.clock.monotonic() - storeDownSince,
      lanes: this.lanes.map((lane) => lane.status()),
    };
  }

  /** @internal */ open(): Promise<void> {
    return (this.opening ??= this.build().catch((error: unknown) => {
      this.opening = undefined;
      throw error;
    }));
  }

  /** @internal */ async build(): Promise<void> {
    const { options, store, clock, transportIds, random } = this.relay;
    this.transports = await this.relay.createTransports();
    const runId = (this.owner = this.relay.owner?.() ?? randomUUID());
    const hooks = this.hooksOf(runId);
    const settings = {
      lease: options.lease,
      buckets: options.ordering === 'global' ? 1 : options.buckets,
      leader: options.coordination === 'leader',
      every: options.pollInterval * 2,
      need: timeOfOne(options),
    };
    const leases = new BucketLeases(store, clock, this.owner, `${hostname()} pid ${process.pid}`, settings);
    this.leases = leases;
    leases.freed = () => this.leaseLoop?.nudge();
    this.leaseLoop = new Loop(
      clock,
      () => this.guarded(leases),
      (error) => this.failed('lease', error, options.pollInterval),
    );
    this.lanes = [...this.transports].map(([name, transport]) => {
      const died = (): void => this.deadLoop?.nudge();
      const id = transportIds.get(name) as number;
      return this.lane({ name, id, transport, store, leases, options, clock, random, hooks, died });
    });
    this.deadLoop = this.deadLetters(hooks);
  }

  /** @internal */ lane(parts: LaneDependencies): RunningLane {
    const { coordination, pollInterval } = this.relay.options;
    const failed = (operation: 'fetch' | 'take', error: unknown): number => this.failed(operation, error, pollInterval);
    const answered = (): void => this.answered();
    return coordination === 'rowLock'
      ? new RowLockLane(parts, failed, answered)
      : new LaneLoops(new Lane(parts), failed, answered);
  }

  /** @internal */ deadLetters(hooks: OutboxHooks): Loop | undefined {
    const { options, store, clock, transportIds } = this.relay;
    if (options.deadLetter === undefined) return undefined;
    const names = new Map([...this.transports.keys()].map((name) => [transportIds.get(name) as number, name]));
    const letters = new DeadLetters(store, options.deadLetter, names, hooks);
    const every = Math.max(1_000, options.lease / 2);
    return new Loop(
      clock,
      async () => ((await letters.runOnce()) ? 0 : every),
      (error) => this.failed('deadLetter', error, every),
    );
  }

  /** Everything that this start tells carries its id. @internal */
  hooksOf(runId: string): OutboxHooks {
    const { hooks } = this.relay;
    return { has: (name) => hooks.has(name), emit: (name, event) => hooks.emit(name, { ...event, runId }) };
  }

  /** @internal */ async runPass(): Promise<RunReport> {
    await this.ending;
    await this.open();
    const leases = this.leases as BucketLeases;
    const manual = !this.running;
    if (manual) leases.lookAgain();
    await (manual ? leases.runOnce() : this.leaseLoop?.runNow());
    try {
      // All of them to their end, also when one fails: the next pass must find none at work.
      const passes = await Promise.allSettled(this.lanes.map((lane) => lane.runPass()));
      await (manual ? this.deadLoop?.runOnce() : this.deadLoop?.runNow());
      return passes.map(valueOf).reduce(sum, { published: 0, retried: 0, dead: 0 });
    } finally {
      if (manual) await this.handBack(leases);
    }
  }

  /** @internal */ async handBack(leases: BucketLeases): Promise<void> {
    await Promise.all(this.lanes.map((lane) => lane.drain()));
    await leases.releaseAll();
  }

  /** @internal */ async guarded(leases: BucketLeases): Promise<number> {
    const { answers } = leases;
    const delay = await leases.runOnce();
    if (leases.answers > answers) this.answered();
    return delay;
  }

  /** @internal */ answered(): void {
    this.storeDownSince = null;
  }

  /** The database did not answer: the loops go on, slower. @internal */
  failed(operation: 'lease' | 'fetch' | 'take' | 'deadLetter', error: unknown, pause: number): number {
    this.storeDownSince ??= this.relay.clock.monotonic();
    const downFor = this.relay.clock.monotonic() - this.storeDownSince;
    const retryIn = Math.min(5_000, Math.max(pause, downFor / 2)) * (0.75 + this.relay.random() / 2);
    this.relay.hooks.emit('error', { runId: this.owner, operation, error, retryIn });
    return retryIn;
  }

  /** @returns whether the work ended before the deadline; its error is not thrown @internal */
  bounded(deadline: number, work: Promise<unknown>): Promise<boolean> {
    const { clock } = this.relay;
    return new Promise((resolve) => {
      const cancel = clock.after(deadline - clock.monotonic(), () => resolve(false));
      const end = (): void => {
        cancel();
        resolve(true);
      };
      work.then(end, end);
    });
  }
}

/** Milliseconds for freeing the leases, however late it is. */
const LAST_WORD = 500;

function sum(a: RunReport, b: RunReport): RunReport {
  return { published: a.published + b.published, retried: a.retried + b.retried, dead: a.dead + b.dead };
}

function valueOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}
