import { randomUUID } from 'node:crypto';
import { inCleanScope } from '../time/async-scope.js';
import type { BucketLeases } from './leases/bucket-leases.js';
import { SnapshotWatch } from './read/snapshot-watch.js';
import type { OutboxEventMap, OutboxHooks } from '../observe/events.js';
import { relayTroubles } from '../observe/relay-troubles.js';
import { misconfigured, OutboxError } from '../outbox.errors.js';
import type { OutboxTransport } from '../transports/transport.js';
import { DatabaseFailures, type DatabaseOperation } from './database-failures.js';
import { deadLetterLoop } from './settle/dead-letters.js';
import { Deadline } from '../time/deadline.js';
import { RelayLoops } from './relay-loops.js';
import { TransportRelay } from './transport-relay.js';
import { transportRelayOptions, type TransportRelayDependencies } from './transport-parts.js';
import { Loop } from '../time/loop.js';
import { leasesOf } from './leases/relay-leases.js';
import type { RelayDependencies, RelayStatus, RunningRelay, RunReport } from './contracts.js';
import { RowLockRelay } from './row-lock/row-lock-relay.js';
import { NOTHING, sum, sumOf } from './run-reports.js';

/**
 * Claims, publishes and settles. Injectable; with `relay: 'manual'` it does so when `start`, `runOnce` or `drain` is called.
 */
export class OutboxDispatcher {
  /** Random per start: a lease of an earlier life of this process is somebody else's. @internal */
  owner = '';
  /** @internal */ relays: RunningRelay[] = [];
  /** @internal */ leases: BucketLeases | undefined;
  /** @internal */ snapshots: SnapshotWatch | undefined;
  /** @internal */ running = false;
  /** @internal */ readonly failures: DatabaseFailures;
  /** @internal */ heldBack: string | null = null;
  /** @internal */ origin: Promise<void> | undefined;
  /** @internal */ opening: Promise<void> | undefined;
  /** @internal */ leaseLoop: Loop | undefined;
  /** @internal */ deadLoop: Loop | undefined;
  /** @internal */ pass: Promise<RunReport> | undefined;
  /** @internal */ ending: Promise<void> | undefined;
  /** @internal */ deadline: Deadline | undefined;
  /** Calls of `stop`: a start that one of them overtook does not start. @internal */
  stops = 0;
  /** @internal */ transports: ReadonlyMap<string, OutboxTransport> = new Map();

  /** @internal */
  constructor(/** @internal */ readonly deps: RelayDependencies) {
    this.failures = new DatabaseFailures(deps.clock);
  }

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
    for (const relay of this.relays) relay.start();
    this.deadLoop?.start();
  }

  /**
   * Stops claiming, finishes or gives back what is in flight, frees the leases, closes the transports.
   * Bounded by `shutdownTimeout`; past it, broker connections are destroyed before the leases are freed.
   */
  stop(): Promise<void> {
    this.stops += 1;
    return (this.ending ??= inCleanScope(() => this.end()).finally(() => (this.ending = undefined)));
  }

  /** A stop that still waits goes on as if its time were over. Without one nothing happens. @internal */
  hurry(): void {
    this.deadline?.end();
  }

  /** @internal */ async end(): Promise<void> {
    const { clock, options, hooks } = this.deps;
    const startedAt = clock.monotonic();
    const deadline = (this.deadline = new Deadline(clock, options.shutdownTimeout));
    if (this.opening !== undefined) await deadline.within(this.opening);
    const { leases, relays } = this;
    if (leases === undefined) return;
    this.running = false;
    const others = Promise.all([this.pass?.catch(() => undefined), this.deadLoop?.stop()]);
    await Promise.all([deadline.within(others), ...relays.map((relay) => relay.stop(deadline))]);
    await deadline.within(this.leaseLoop?.stop() ?? Promise.resolve(), 1_000);
    let released = false;
    const release = leases.releaseAll().then(() => (released = true));
    await deadline.within(release, Math.max(2_000, clock.monotonic() - deadline.at + LAST_WORD));
    this.leases = this.snapshots = undefined;
    this.failures.clear();
    this.relays = [];
    this.opening = undefined;
    this.origin = undefined;
    hooks.emit('stopped', { runId: this.owner, released, took: clock.monotonic() - startedAt });
  }

  /**
   * One pass: leases what is free, and renews that; publishes everything that is ready or due, and waits until that is settled. Gives the
   * leases back unless the loops run. Concurrent calls share one pass.
   */
  runOnce(): Promise<RunReport> {
    return (this.pass ??= inCleanScope(() => this.runPass()).finally(() => (this.pass = undefined)));
  }

  /**
   * Passes until one finds nothing. With the loops running it waits for them instead.
   * @param options.timeout milliseconds, default 60 000
   * @throws OutboxError `TIMEOUT`
   */
  async drain({ timeout = 60_000 }: { timeout?: number } = {}): Promise<RunReport> {
    const deadline = new Deadline(this.deps.clock, timeout);
    let total = NOTHING;
    const { stops } = this; // another pass would be a life after the stop
    for (;;) {
      const pass = this.runOnce();
      if (!(await deadline.within(pass)))
        throw new OutboxError('TIMEOUT', `The outbox was not empty after ${timeout} ms.`);
      const report = await pass;
      total = sum(total, report);
      if (report.published + report.retried + report.dead === 0 || stops !== this.stops) return total;
    }
  }

  /** A hint that there is work, or will be in `ms` milliseconds. Synchronous, never throws. */
  nudge(where: 'ready' | 'parked' = 'ready', ms = 0): void {
    for (const relay of this.relays) relay.nudge(where, ms);
  }

  /** Whether everything that is committed now is this instance's to publish: nobody else needs to know of it. @internal */
  get holdsAll(): boolean {
    return this.relays.length === this.deps.transportIds.size && this.relays.every((relay) => relay.holdsAll);
  }

  /** A hint that another instance came or left, or freed leases. @internal */
  lookAtLeases(): void {
    this.leases?.lookAgain();
    this.leaseLoop?.nudge();
  }

  status(): RelayStatus {
    const failing = [...this.failures.list(), ...this.relays.flatMap((relay) => relay.failingWrites())];
    return {
      running: this.running,
      owner: this.owner,
      storeDownFor: failing.length === 0 ? null : Math.max(...failing.map(({ failingFor }) => failingFor)),
      failing,
      heldBack: this.heldBack,
      heartbeatLate: Math.round(this.leaseLoop?.lateBy ?? 0),
      slowRenewal: this.leases?.slowRenewal ?? null,
      heldSnapshot: this.snapshots?.status() ?? null,
      transports: this.relays.map((relay) => relay.status()),
    };
  }

  /** @internal */ open(): Promise<void> {
    return (this.opening ??= inCleanScope(() => this.build()).catch((error: unknown) => {
      this.opening = undefined;
      throw error;
    }));
  }

  /** @internal */ async build(): Promise<void> {
    const { store, clock, transportIds, random } = this.deps;
    const options = transportRelayOptions(this.deps.options);
    this.transports = await this.deps.createTransports();
    const runId = (this.owner = this.deps.owner?.() ?? randomUUID());
    const hooks = this.hooksOf(runId);
    const leases = (this.leases = leasesOf(this.deps, runId, {
      emit: hooks.emit,
      freed: () => this.leaseLoop?.nudge(),
      changed: () => this.deps.leasesChanged?.(),
      troubles: () => relayTroubles(this.status(), clock.wall()),
      hears: () => this.deps.hears?.() ?? false,
    }));
    this.leaseLoop = new Loop(
      clock,
      () => this.guarded(leases),
      (error) => this.failed('lease', null, error, options.pollInterval),
    );
    const cost = (this.snapshots = new SnapshotWatch(store.diagnose, clock, hooks, `${options.database.prefix}ready`));
    this.relays = [...this.transports].map(([name, transport]) => {
      const died = (): void => this.deadLoop?.nudge();
      const id = transportIds.get(name) as number;
      const admitted = (): Promise<void> => this.admitted();
      const expected = () => this.deps.expected?.(name) ?? [];
      const parts = { name, id, transport, store, leases, options, clock, random, hooks, died, admitted, cost };
      return this.relay({ ...parts, expected });
    });
    this.deadLoop = deadLetterLoop(this.deps, this.transports, hooks, this.failures, (error, pause) =>
      this.failed('deadLetter', null, error, pause),
    );
  }

  /** @internal */ relay(parts: TransportRelayDependencies): RunningRelay {
    const { coordination, pollInterval } = this.deps.options;
    const { name } = parts;
    const failed = (operation: 'fetch' | 'take', error: unknown): number =>
      this.failed(operation, name, error, pollInterval);
    const succeeded = (operation: 'fetch' | 'take'): void => this.failures.succeeded(operation, name);
    if (coordination === 'rowLock' && parts.transport.perBucket === true)
      misconfigured(
        `The transport '${name}' is fenced by bucket, and with coordination: 'rowLock' nobody owns a bucket.`,
        `Take coordination: 'buckets', or turn the fencing off.`,
      );
    return coordination === 'rowLock'
      ? new RowLockRelay(parts, failed, succeeded)
      : new RelayLoops(new TransportRelay(parts), failed, succeeded);
  }

  /** Everything that this start tells carries its id. Why it does not publish is written at once, for every process that asks. @internal */
  hooksOf(runId: string): OutboxHooks {
    const { hooks } = this.deps;
    return {
      has: (name) => hooks.has(name),
      emit: (name, event) => {
        hooks.emit(name, { ...event, runId });
        if (TROUBLES.has(name)) this.leases?.tellNow();
      },
    };
  }

  /** @internal */ async runPass(): Promise<RunReport> {
    await this.ending;
    await this.open();
    const [leases, loop] = [this.leases as BucketLeases, this.leaseLoop as Loop];
    const manual = !this.running;
    await this.admitted();
    if (manual) leases.lookAgain();
    await (manual ? leases.runOnce() : loop.runNow());
    if (manual && this.leases === leases) loop.start(leases.renewEvery); // not behind a stop
    try {
      // All of them to their end, also when one fails: the next pass must find none at work.
      const passes = await Promise.allSettled(this.relays.map((relay) => relay.runPass()));
      await (manual ? this.deadLoop?.runOnce() : this.deadLoop?.runNow());
      return sumOf(passes);
    } finally {
      if (manual) await this.handBack(leases, loop);
    }
  }

  /** @internal */ async handBack(leases: BucketLeases, loop: Loop): Promise<void> {
    await Promise.all(this.relays.map((relay) => relay.drain()));
    await loop.stop();
    this.failures.clear();
    await leases.releaseAll();
  }

  /** @internal */ async guarded(leases: BucketLeases): Promise<number> {
    const { answers } = leases;
    this.lookAtTime();
    await this.admitted();
    const delay = await leases.runOnce();
    if (leases.answers > answers) this.failures.succeeded('lease', null);
    return delay;
  }

  /** A third of a lease late: what was in hand is given up by now or soon, and others take it over. @internal */
  lookAtTime(): void {
    if ((this.leaseLoop?.lateBy ?? 0) < this.deps.options.lease / 3) return;
    this.deps.hooks.emit('warning', { text: STOOD_STILL });
  }

  /** Asked until it is answered with yes, once per start. @internal */
  admitted(): Promise<void> {
    return (this.origin ??= Promise.resolve(this.deps.store.setup.checkOrigin?.()).then(
      () => void (this.heldBack = null),
      (error: unknown) => {
        this.origin = undefined;
        if (error instanceof OutboxError && error.code === 'DATABASE_COPIED') this.heldBack = error.message;
        throw error;
      },
    ));
  }

  /** The database did not answer: the loops go on, slower. @internal */
  failed(operation: DatabaseOperation, transport: string | null, error: unknown, pause: number): number {
    const downFor = this.heldBack === null ? this.failures.failed(operation, transport, error) : 0;
    const retryIn = Math.min(5_000, Math.max(pause, downFor / 2)) * (0.75 + this.deps.random() / 2);
    this.deps.hooks.emit('error', { runId: this.owner, operation, error, retryIn });
    return retryIn;
  }
}

const STOOD_STILL =
  'the process was frozen or blocked for more than a third of a lease (a blocked event loop, a starved process): its leases may go to others';

const TROUBLES: ReadonlySet<string> = new Set<keyof OutboxEventMap>([
  'circuitOpened',
  'circuitClosed',
  'destinationAway',
  'destinationBack',
]);

/** Milliseconds for freeing the leases, however late it is. */
const LAST_WORD = 500;
