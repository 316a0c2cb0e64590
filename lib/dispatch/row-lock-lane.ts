import type { OutboxMessage } from '../message.js';
import { errorText, withoutSecrets } from '../observe/error-text.js';
import { secretsOf } from '../observe/secrets.js';
import { fitting, isUnread } from '../large-payloads.js';
import { Publisher } from '../publish/publisher.js';
import type { PublishFailure } from '../publish/transport.js';
import { decide, type Outcome } from '../settle/decide.js';
import type { LockedOutcome, ReparkEntry } from '../store/parked-store.js';
import type { ParkEntry } from '../store/ready-store.js';
import type { OnResult } from './batch.types.js';
import { LargePayloads } from './bring-payloads.js';
import { within } from './clock.js';
import type { Deadline } from './deadline.js';
import type { LaneDependencies } from './lane.types.js';
import { Loop } from './loop.js';
import { Outage, type OutageLane } from './outage.js';
import type { LaneStatus, RunningLane, RunReport } from './relay.js';

/**
 * The relay of one transport for slow, unordered work: rows are locked (`SKIP LOCKED`) and the transaction stays open
 * while they are published. No leases, so any number of instances share one backlog evenly; the price is a connection and
 * row locks held for as long as the broker takes. One batch at a time per transport and instance.
 */
export class RowLockLane implements RunningLane, OutageLane {
  readonly loop: Loop;
  readonly publisher: Publisher;
  readonly outage: Outage;
  readonly counts = { published: 0, retried: 0, dead: 0 };
  readonly kill = new AbortController();
  /**
   * Ids that go alone, the latest last: after a failure that was a neighbour's. Kept until this instance publishes them;
   * what another one took costs nothing here, as only what is locked goes alone.
   */
  readonly alone = new Set<string>();
  readonly payloads: LargePayloads;
  unresolved = 0;
  /** What is being published is one single message. */
  onlyOne = false;
  /** @internal */ readonly maxBatch: number;

  constructor(
    readonly deps: LaneDependencies,
    failed: (operation: 'fetch', error: unknown) => number,
    readonly answered: () => void,
  ) {
    this.publisher = new Publisher(deps.transport, deps.clock, deps.options.publishTimeout, deps.options.encryption);
    this.maxBatch = Math.min(deps.options.batchSize, deps.transport.maxBatch ?? Infinity);
    this.outage = new Outage(this, deps);
    this.payloads = new LargePayloads(deps, (message) => this.markAlone(message));
    this.loop = new Loop(
      deps.clock,
      () => this.read(),
      (error) => failed('fetch', error),
    );
    deps.leases.announce(deps.id, this);
    deps.transport.onState = (state, reason) => this.outage.transportState(state, reason);
  }

  get participates(): boolean {
    return this.outage.participates;
  }

  /** Rows are anybody's. */
  readonly holdsAll = false;

  start(): void {
    this.loop.start();
  }

  nudge(): void {
    this.loop.nudge();
  }

  wanted(): void {
    this.loop.nudge();
  }

  async stop(deadline: Deadline): Promise<void> {
    if (!(await deadline.within(this.loop.stop()))) {
      this.kill.abort();
      await this.publisher.reset();
      await within(this.deps.clock, 1_000, Promise.allSettled([this.loop.stop()]));
    }
    this.outage.stop();
    await this.publisher.close(Math.max(500, deadline.left));
  }

  async runPass(): Promise<RunReport> {
    const before = { ...this.counts };
    const until = this.deps.clock.monotonic() + this.deps.options.lease;
    for (let settled = -1; ; settled = this.counts.published + this.counts.dead) {
      if (this.loop.running) await this.loop.runNow();
      else await this.read();
      if (this.lastLocked === 0 || this.outage.circuit.allows !== 'all') break;
      // Only such as failed and are due again already, or a backlog that never ends: the next pass goes on.
      if ((this.counts.published + this.counts.dead === settled && !this.putOff) || this.deps.clock.monotonic() > until)
        break;
    }
    const { published, retried, dead } = this.counts;
    return { published: published - before.published, retried: retried - before.retried, dead: dead - before.dead };
  }

  async drain(): Promise<void> {}

  reconnect(): Promise<void> {
    return this.publisher.reconnect(this.kill.signal);
  }

  giveUpWaiting(): void {}

  markAlone({ id }: OutboxMessage): void {
    this.alone.delete(id);
    if (this.alone.size >= MAX_ALONE) this.alone.delete(this.alone.values().next().value as string);
    this.alone.add(id);
  }

  status(): LaneStatus {
    const { circuit } = this.outage;
    return {
      transport: this.deps.name,
      receipt: this.deps.transport.receipt,
      circuit: circuit.state,
      buckets: [],
      buffered: 0,
      inFlight: this.unresolved,
      blockedKeys: 0,
      lastError: circuit.lastError === undefined ? null : errorText(circuit.lastError),
    };
  }

  /** @internal */ lastLocked = 0;
  /** Of the rows that were locked some did not fit into the batch. @internal */
  leftOver = false;
  /** Their payloads could not be read. @internal */
  putOff = false;

  /** @internal */ async read(): Promise<number> {
    this.lastLocked = 0;
    this.leftOver = this.putOff = false;
    const { options, id, store } = this.deps;
    await this.deps.admitted?.();
    if (!(await this.outage.mayRead())) return options.pollInterval;
    // Those that are held back are locked with the others, or none would be seen behind them.
    const limit = (this.outage.probing ? PROBE_CHOICE : this.maxBatch) + this.payloads.waiting;
    const request = { transport: id, limit, onPublished: options.onPublished };
    const told: (() => void)[] = [];
    const count = await store.withLockedRows(request, async (rows, durable, alive) => {
      const locked = rows.filter((message) => this.payloads.mayRead(message));
      this.lastLocked = locked.length;
      return locked.length === 0 ? NOTHING : this.publishLocked(locked, durable, alive, told);
    });
    for (const tell of told) tell();
    this.answered();
    if (this.outage.probing && this.lastLocked === 0) this.outage.probeAgain(0, 1);
    const more = (count === limit && this.lastLocked > 0) || this.leftOver;
    return more && this.outage.circuit.allows === 'all' ? 0 : options.pollInterval;
  }

  /** Batch by batch; after the first only while nothing is wrong, and not for long. @internal */
  async publishLocked(
    locked: readonly OutboxMessage[],
    durable: boolean,
    alive: () => Promise<unknown>,
    told: (() => void)[],
  ): Promise<LockedOutcome> {
    const { store, options, clock } = this.deps;
    const outcomes: LockedOutcome[] = [];
    const until = clock.monotonic() + ALONE_TIME;
    let flushed = durable && options.durability !== 'always';
    let left = locked.length;
    for (const messages of this.batchesOf(locked)) {
      if (outcomes.length > 0 && (this.outage.circuit.allows !== 'all' || clock.monotonic() > until)) break;
      left -= messages.length;
      const verdict = messages.some(isUnread) ? await this.payloads.bring(messages) : 'go';
      this.putOff = verdict === 'later';
      if (verdict === 'later') break;
      if (verdict === 'go' && !flushed) {
        await store.flush();
        await alive(); // the server that showed them is the one that flushed
        flushed = true;
      }
      outcomes.push(await this.publish(messages, told, verdict === 'go' ? undefined : verdict));
    }
    this.leftOver = left > 0;
    return {
      published: outcomes.flatMap(({ published }) => published),
      parked: outcomes.flatMap(({ parked }) => parked),
      reparked: outcomes.flatMap(({ reparked }) => reparked),
    };
  }

  /** Those that go alone come before the others, which are the next transaction's. @internal */
  batchesOf(locked: readonly OutboxMessage[]): readonly (readonly OutboxMessage[])[] {
    // Were the probe always the oldest, one that kills its connection would let nobody through.
    if (this.outage.probing) return [[locked[Math.floor(this.deps.random() * locked.length)] as OutboxMessage]];
    const { batchBytes } = this.deps.options;
    const alone = this.alone.size === 0 ? [] : locked.filter(({ id }) => this.alone.has(id));
    if (alone.length > 0) return fitting(alone, batchBytes).map((message) => [message]);
    return [fitting(locked.slice(0, this.maxBatch), batchBytes)];
  }

  /**
   * @param told what is to be told after the commit
   * @param failure what became of a single message already
   * @internal
   */
  async publish(
    messages: readonly OutboxMessage[],
    told: (() => void)[],
    failure?: PublishFailure,
  ): Promise<LockedOutcome> {
    const published: OutboxMessage[] = [];
    const parked: ParkEntry[] = [];
    const reparked: ReparkEntry[] = [];
    this.unresolved = messages.length;
    this.onlyOne = messages.length === 1;
    const onResult: OnResult = (index, result) => {
      this.unresolved -= 1;
      const message = messages[index] as OutboxMessage;
      if (result.ok) {
        this.alone.delete(message.id);
        published.push(message);
        this.outage.succeeded(message);
        return;
      }
      const entry = this.outcome(message, this.outage.charge(message, result), told);
      if (entry === undefined) return;
      if (message.parkedId === null)
        parked.push({ bucket: message.bucket, seq: message.seq, id: message.id, ...entry });
      else {
        const { parkedId, bucket, attempts } = message;
        reparked.push({ parkedId, bucket, attemptsBefore: attempts, ...entry });
      }
    };
    if (failure === undefined) await this.publisher.publish(messages, onResult, this.kill.signal);
    else onResult(0, failure);
    told.push(() => this.tell(published));
    return { published, parked, reparked };
  }

  /** @internal */ outcome(
    message: OutboxMessage,
    failure: PublishFailure,
    told: (() => void)[],
  ): Omit<ReparkEntry, 'parkedId' | 'bucket' | 'attemptsBefore'> | undefined {
    const { hooks, name } = this.deps;
    const decided = this.decide(message, failure);
    const outcome = decided.kind === 'release' ? this.outage.insteadOf(decided, message, failure) : decided;
    const error = errorText(failure.error, [message]);
    const { id, type, topic } = message;
    told.push(() => hooks.emit('failed', { transport: name, count: 1, blame: failure.blame, error }));
    if (outcome.kind === 'release') {
      if (outcome.alone && !this.onlyOne) this.markAlone(message);
      else this.outage.failed(error, message, failure.suspect);
      return undefined;
    }
    const progress = failure.progress === undefined ? {} : { progress: failure.progress };
    const event = { transport: name, id, type, topic, attempts: outcome.attempts, error };
    if (outcome.kind === 'dead') {
      told.push(() => {
        this.counts.dead += 1;
        hooks.emit('dead', event);
        this.deps.died();
      });
      return { state: 'dead', blocks: false, attempts: outcome.attempts, delay: null, error, ...progress };
    }
    told.push(() => {
      this.counts.retried += 1;
      hooks.emit('retried', { ...event, delay: outcome.delay });
    });
    return { state: 'waiting', blocks: false, attempts: outcome.attempts, delay: outcome.delay, error, ...progress };
  }

  /** A classifier that throws has no say; thrown on, it would undo the whole batch, published or not. @internal */
  decide(message: OutboxMessage, failure: PublishFailure): Outcome {
    const { options, leases, random, hooks } = this.deps;
    const [now, chance] = [leases.now, random()];
    try {
      return decide(message, failure, options.retry, now, chance);
    } catch (error) {
      hooks.emit('error', { operation: 'publish', error: withoutSecrets(error, secretsOf([message])), retryIn: null });
      return decide(message, failure, { ...options.retry, classify: undefined }, now, chance);
    }
  }

  /** @internal */ tell(published: readonly OutboxMessage[]): void {
    this.counts.published += published.length;
    if (published.length === 0 || !this.deps.hooks.has('published')) return;
    this.deps.hooks.emit('published', { transport: this.deps.name, ids: published.map(({ id }) => id) });
  }
}

/** A few broken batches; beyond it, the oldest may share a batch once more. */
const MAX_ALONE = 5_000;
/** Milliseconds after which no further message goes alone in the same transaction, which holds all its rows locked. */
const ALONE_TIME = 1_000;
/** Rows that a probe chooses from. */
const PROBE_CHOICE = 10;
const NOTHING: LockedOutcome = { published: [], parked: [], reparked: [] };
