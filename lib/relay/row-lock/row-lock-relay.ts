import { OutboxMessage } from '../../outbox-message.js';
import { fitting } from '../../message/fitting-by-bytes.js';
import { isUnread, withoutLargePayload } from '../../message/unread-payload.js';
import type { Publisher } from '../publish/publisher.js';
import type { Pause } from '../../store/pauses/pause-store.js';
import type { LockedReport, LockSession } from '../../store/parked-store.js';
import type { Batch, OnResult, Failure } from '../publish/batch.types.js';
import { InFlight } from '../publish/in-flight.js';
import { LargePayloads } from '../publish/large-payloads.js';
import type { Deadline } from '../../time/deadline.js';
import { FirstConnection } from '../publish/first-connection.js';
import { publisherOf, type TransportRelayDependencies } from '../transport-parts.js';
import { endBrokerSide, statusOf } from '../broker-side.js';
import { difference } from '../run-reports.js';
import { PauseGate } from '../pauses/gate.js';
import { LookAhead } from './look-ahead.js';
import { LockedResults } from './locked-results.js';
import { Loop } from '../../time/loop.js';
import { Outage } from '../publish/outage.js';
import { Trial } from '../publish/trial.js';
import { RefusedRows } from './refused-rows.js';
import { outcomeOf } from '../settle/outcome-of.js';
import { transitionTo, whyFailed, whyPutOff } from '../settle/results.js';
import { isRetry, type Transition } from '../settle/settler.js';
import { tellPublished, tellTransition } from '../settle/tell.js';
import type { TransportStatus, RunningRelay, RunReport } from '../contracts.js';
import { WakeUps } from '../wake/wake-ups.js';

/**
 * The relay of one transport for slow, unordered work: rows are locked (`SKIP LOCKED`) and the transaction stays open
 * while they are published. No leases, so any number of instances share one backlog evenly; the price is a connection and
 * row locks held for as long as the broker takes. One batch at a time per transport and instance.
 */
export class RowLockRelay implements RunningRelay {
  readonly loop: Loop;
  readonly publisher: Publisher;
  readonly outage: Outage;
  readonly firstConnection: FirstConnection;
  readonly counts = { published: 0, retried: 0, dead: 0 };
  readonly kill = new AbortController();
  /**
   * Ids that go alone are kept until this instance publishes them; what another one took costs nothing here, as only what is
   * locked goes alone.
   */
  readonly flight = new InFlight();
  readonly trial = new Trial();
  readonly payloads: LargePayloads;
  readonly refused: RefusedRows;
  readonly ahead: LookAhead;
  readonly gate: PauseGate;
  readonly wakeUps = new WakeUps();
  /** Dead, and through all the same: written when no row is locked here. All else is written with the locks. */
  private late: OutboxMessage[] = [];
  private readonly maxBatch: number;
  /** Nothing is begun any more, neither by the loop nor by a pass. */
  private stopping = false;
  private reading: Promise<number> | undefined;

  constructor(
    readonly deps: TransportRelayDependencies,
    failed: (operation: 'fetch', error: unknown) => number,
    succeeded: (operation: 'fetch') => void,
  ) {
    this.publisher = publisherOf(deps, (...said) => this.outage.transportState(...said));
    this.maxBatch = Math.min(deps.options.batchSize, deps.transport.maxBatch ?? Infinity);
    this.gate = new PauseGate(deps);
    const { flight, trial } = this;
    this.outage = new Outage(deps, { flight, trial }, this.wakeUps, () => this.publisher.reconnect(this.kill.signal));
    this.firstConnection = new FirstConnection(this.publisher, this.outage, deps);
    this.payloads = new LargePayloads(deps, (message) => this.trial.markAlone(message));
    this.refused = new RefusedRows(deps);
    this.ahead = new LookAhead(deps);
    this.loop = new Loop(
      deps.clock,
      async () => {
        const delay = await this.read();
        succeeded('fetch');
        return delay;
      },
      (error) => (this.kill.signal.aborted ? Infinity : failed('fetch', error)), // broken off by a stop past its deadline
    );
    this.wakeUps.wake(this.loop, this.loop);
    deps.leases.announce(deps.id, this);
    deps.leases.pauses.listen(deps.id, (pauses) => this.paused(pauses));
  }

  get participates(): boolean {
    return this.outage.participates;
  }

  private get buckets(): readonly number[] {
    return Array.from({ length: this.deps.leases.settings.buckets }, (_, bucket) => bucket);
  }

  /** Rows are anybody's. */
  readonly holdsAll = false;

  start(): void {
    this.outage.destinations.freeing.add(null);
    this.loop.start();
    this.firstConnection.start();
  }

  nudge(_where: 'ready' | 'parked', ms: number): void {
    this.loop.within(ms);
  }

  async stop(deadline: Deadline): Promise<void> {
    this.stopping = true;
    const finished = Promise.allSettled([this.loop.stop(), this.reading]);
    await endBrokerSide(this, this.firstConnection, finished, deadline);
  }

  async runPass(): Promise<RunReport> {
    const before = { ...this.counts };
    const until = this.deps.clock.monotonic() + this.deps.options.lease;
    for (let settled = -1; ; settled = this.counts.published + this.counts.dead) {
      if (this.loop.running) await this.loop.runNow();
      else await this.read();
      if (this.stopping || this.lastLocked === 0 || this.outage.circuit.allows !== 'all') break;
      // Only such as failed and are due again already, or a backlog that never ends: the next pass goes on.
      if (
        (this.counts.published + this.counts.dead === settled && !this.isUnread && this.untried === 0) ||
        this.deps.clock.monotonic() > until
      )
        break;
    }
    return difference(this.counts, before);
  }

  async drain(): Promise<void> {}

  private paused(pauses: readonly Pause[]): void {
    const ended = this.gate.changed(pauses);
    if (ended.length > 0) this.outage.destinations.resumed(ended);
    if (!this.gate.isClosed) this.wakeUps.ready();
  }

  status(): TransportStatus {
    return statusOf(this);
  }

  /** What is read again is written again. */
  failingWrites(): [] {
    return [];
  }

  private lastLocked = 0;
  /** Of the rows that were locked some did not fit into the batch. */
  private leftOver = false;
  /** Were put off without a try. */
  private untried = 0;
  /** Their payloads could not be read. */
  private isUnread = false;

  read(): Promise<number> {
    if (this.stopping) return Promise.resolve(this.deps.options.pollInterval);
    const reading = this.readOnce().finally(() => {
      if (this.reading === reading) this.reading = undefined;
    });
    return (this.reading = reading);
  }

  private async readOnce(): Promise<number> {
    this.lastLocked = 0;
    this.leftOver = this.isUnread = false;
    this.untried = 0;
    const { options, id, store, clock } = this.deps;
    await this.deps.admitted?.();
    await this.settleLate();
    if (!(await this.outage.mayRead()) || this.stopping) return options.pollInterval;
    if (this.gate.isClosed) {
      if (this.outage.probing) this.outage.probeAgain(0, 1); // a connection is proof enough
      return options.pollInterval;
    }
    await this.ahead.begin(this.buckets);
    // Those that are held back are locked with the others, or none would be seen behind them.
    const limit = (this.outage.probing ? PROBE_CHOICE : this.maxBatch) + this.payloads.waiting + this.refused.waiting;
    const request = { transport: id, limit, onPublished: options.onPublished };
    const results = new LockedResults();
    const askedAt = clock.monotonic();
    const report = await store.rowLocks.withLockedRows(request, async (rows, durable, session) => {
      this.deps.cost?.took(clock.monotonic() - askedAt, rows.length);
      const locked = rows.filter((message) => this.payloads.mayRead(message) && this.refused.mayTry(message));
      this.lastLocked = locked.length;
      const unpublished = locked.filter(
        (message) => !this.refused.wasPublished(message) && !this.putOff(message, results),
      );
      results.published.push(...locked.filter((message) => this.refused.wasPublished(message)));
      if (unpublished.length > 0) await this.publishLocked(unpublished, durable, { ...session, askedAt }, results);
      return results;
    });
    this.committed(results, report.refused);
    if (this.outage.probing && this.lastLocked === 0) this.outage.probeAgain(0, 1);
    // One that failed by itself neither ended the probe nor the wait of those behind it.
    if (this.outage.probing) return this.lastLocked > 0 && !this.isUnread ? 0 : options.pollInterval;
    const isFreed = (await this.outage.destinations.free(this.buckets)) > 0;
    const more = (report.locked === limit && this.lastLocked > 0) || this.leftOver || isFreed;
    return this.outage.circuit.allows === 'all' ? this.ahead.end(more, results) : options.pollInterval;
  }

  /** Batch by batch; after the first only while nothing is wrong, and not for long. */
  private async publishLocked(
    locked: readonly OutboxMessage[],
    durable: boolean,
    session: LockSession & { readonly askedAt: number },
    results: LockedResults,
  ): Promise<void> {
    const { store, clock } = this.deps;
    const until = clock.monotonic() + ALONE_TIME;
    let flushed = durable;
    let left = locked.length;
    for (const messages of this.batchesOf(locked)) {
      const first = left === locked.length;
      if (!first && (this.outage.circuit.allows !== 'all' || clock.monotonic() > until)) break;
      left -= messages.length;
      const unread = messages.some(isUnread);
      const verdict = unread ? await this.payloads.bring(messages) : 'go';
      this.isUnread = verdict === 'later';
      if (verdict === 'later') break;
      const flush = verdict === 'go' && !flushed;
      if (flush) await store.ready.flush();
      // Time went by since they were locked: they are ours still, and the server that showed them is the one that flushed.
      const late = clock.monotonic() - session.askedAt > LATE; // after a stand-still rows are read before their session's end is
      if (!first || unread || flush || late) await session.alive();
      flushed ||= flush;
      if (this.stopping || this.gate.isClosed) break;
      await this.publish(messages, results, session.ended, verdict === 'go' ? undefined : verdict);
    }
    this.leftOver = left > 0;
  }

  /** Those that go alone come before the others, which are the next transaction's. */
  private batchesOf(locked: readonly OutboxMessage[]): readonly (readonly OutboxMessage[])[] {
    // Were the probe always the oldest, one that kills its connection would let nobody through.
    if (this.outage.probing) return [[locked[Math.floor(this.deps.random() * locked.length)] as OutboxMessage]];
    const { batchBytes } = this.deps.options;
    const alone = locked.filter((message) => this.trial.goesAlone(message));
    if (alone.length > 0) return fitting(alone, batchBytes).map((message) => [message]);
    return [fitting(locked.slice(0, this.maxBatch), batchBytes)];
  }

  /**
   * All results of the transaction together.
   * @param ended of the session with the locks: nothing of these messages is begun any more
   * @param failure what became of a single message already
   */
  private async publish(
    messages: readonly OutboxMessage[],
    results: LockedResults,
    ended: AbortSignal,
    failure?: Failure,
  ): Promise<void> {
    const batch: Batch = { messages, units: undefined };
    this.flight.begin(batch);
    const onResult: OnResult = (index, result) => {
      const message = messages[index] as OutboxMessage;
      if (result === 'late') return this.gotThroughLate(message);
      this.flight.answered();
      if (!result.ok) {
        // Broken off by us: that is no outage of the broker, and nothing can be written.
        if (!ended.aborted) this.failed(message, result, results);
        return;
      }
      this.trial.clear(message);
      results.published.push(message);
      this.outage.succeeded(message);
    };
    if (failure === undefined) await this.publisher.publish(messages, onResult, this.kill.signal, ended);
    else onResult(0, failure);
    this.flight.end(batch);
  }

  private failed(message: OutboxMessage, failure: Failure, results: LockedResults): void {
    const { outcome, charged } = outcomeOf(message, failure, this.outage, this.deps);
    results.failures.note(message, charged.blame, charged.text);
    if (outcome.kind !== 'release') this.park(transitionTo(message, outcome, false, whyFailed(charged)), results);
    else if (outcome.alone && !this.flight.onlyOne) this.trial.markAlone(message);
    else this.outage.failed(charged.text, message, charged.suspect);
  }

  /** Puts it off instead of a try, where it goes to what takes nothing now, or is paused. @returns whether it does */
  private putOff(message: OutboxMessage, results: LockedResults): boolean {
    const away = this.outage.destinations.someWait ? this.outage.isAway(message) : undefined;
    if (away === undefined) return false;
    this.untried += 1;
    const outcome = this.outage.destinations.untried(message, away);
    this.park(transitionTo(message, outcome, false, whyPutOff(outcome, away)), results);
    return true;
  }

  private park(transition: Transition, results: LockedResults): void {
    if (transition.state === 'dead') transition.message.state = 'dead';
    results.park(transition);
  }

  private committed(results: LockedResults, refused: LockedReport['refused']): void {
    const { deps, counts } = this;
    const { published, transitions } = results.written(refused);
    results.failures.tell(deps);
    for (const transition of transitions) {
      if (transition.state === 'dead') counts.dead += 1;
      else if (isRetry(transition)) counts.retried += 1;
      tellTransition(deps, transition);
      if (transition.putOffFor !== undefined)
        this.outage.destinations.written(transition.putOffFor, transition.message);
    }
    for (const { entry, error } of refused)
      this.refused.refuse(results.messageOf(entry), error, entry instanceof OutboxMessage);
    counts.published += published.length;
    tellPublished(deps, published);
  }

  /** A call that nobody waited for any more ended well, after it was decided that its message is dead. */
  private gotThroughLate(message: OutboxMessage): void {
    if (message.state !== 'dead' || this.late.length >= MOST_LATE) return;
    message.state = 'idle';
    this.late.push(withoutLargePayload(message));
    this.wakeUps.ready();
  }

  private async settleLate(): Promise<void> {
    const { store, id, options, hooks } = this.deps;
    const { late } = this;
    if (late.length === 0) return;
    this.late = [];
    try {
      await store.ready.settle(id, late, options.onPublished);
    } catch (error) {
      return hooks.emit('error', { operation: 'settle', error, retryIn: null }); // they stay dead
    }
    this.counts.published += late.length;
    tellPublished(this.deps, late);
  }
}

/** Late successes that wait; more of them stay dead. */
const MOST_LATE = 1_000;
/** Milliseconds after which no further message goes alone in the same transaction, which holds all its rows locked. */
const ALONE_TIME = 1_000;
/** Rows that came no later than this after they were asked for are ours without a question. */
const LATE = 1_000;
/** Rows that a probe chooses from. */
const PROBE_CHOICE = 10;
