import type { LeaseListener } from './leases/lease-listener.js';
import { Reader } from './read/reader.js';
import { ProbedLowWaterMark } from './read/probed-low-water-mark.js';
import { readProbe } from './read/read-probe.js';
import { SnapshotLowWaterMark } from './read/snapshot-low-water-mark.js';
import type { OutboxMessage } from '../outbox-message.js';
import { counted } from '../observe/plural.js';
import { Ledger } from './ledger.js';
import type { Publisher } from './publish/publisher.js';
import { Settler, isRetry, type Decided, type SettlerReport, type Transition } from './settle/settler.js';
import type { Acquired, Lease } from '../store/lease-store.js';
import { inOneOrder } from '../store/parked-store.js';
import type { Pause } from '../store/pauses/pause-store.js';
import type { ReadyStore } from '../store/ready-store.js';
import type { Clock } from '../time/clock.js';
import type { LowWaterMark } from './read/low-water-mark.js';
import { GlobalOrderGate } from './order/global-order-gate.js';
import { Batcher } from './publish/batcher.js';
import type { Answer, Batch, Result, Failure, Unit } from './publish/batch.types.js';
import { Delivery } from './publish/delivery.js';
import { LargePayloads } from './publish/large-payloads.js';
import { RunResults, type RunEnd } from './publish/run-results.js';
import { IDLE, NONE_TAKEN, publisherOf, type TransportRelayDependencies } from './transport-parts.js';
import type { InFlight } from './publish/in-flight.js';
import { Outage } from './publish/outage.js';
import { UNCLEAN_ENDS, type Trial } from './publish/trial.js';
import { PauseGate } from './pauses/gate.js';
import { ParkedReader, type Taken } from './order/parked-reader.js';
import { outcomeOf } from './settle/outcome-of.js';
import { Results, type Effect } from './settle/results.js';
import { Failures, tellPublished, tellTransition } from './settle/tell.js';
import { Room } from './read/room.js';
import { WakeUps } from './wake/wake-ups.js';

/**
 * The relay of one transport: what it leased, read, hands over and settles. Those of two transports share nothing but the store
 * and the heartbeat, so that a dead broker costs a living one nothing.
 *
 *   step                who decides                        who does it                 what comes back
 *   1 read              room, outage, global order         Reader                      messages
 *   2 gate              keys in memory and parked          Ledger                      -
 *   3 batch             key gate, leases, bounds           Batcher                     a batch
 *   4 publish           poison message, large payloads     Delivery, the transport     for each message what is said of it
 *   5 decide a failure  `decide`, Outage                   Results                     effects: what follows for each key
 *     or free the key   -                                  Ledger                      -
 *   6 write             -                                  Settler                     a report of each write
 *   7 apply             -                                  Ledger, Reader              room, and keys of failures: back to 1
 *
 * What is parked comes in at step 2: ParkedReader finds and takes it (`parkedOnce`). Parts return what happened, and this calls
 * the next one; it alone sees them all. It does one step when told (`readOnce`, `parkedOnce`); `RelayLoops` repeat them.
 */
export class TransportRelay implements LeaseListener {
  readonly ledger: Ledger;
  readonly reader: Reader;
  readonly settler: Settler;
  readonly publisher: Publisher;
  readonly batcher: Batcher;
  readonly delivery: Delivery;
  readonly runs: RunResults;
  readonly parked: ParkedReader;
  readonly gate: PauseGate;
  readonly outage: Outage;
  readonly results: Results;
  readonly counts = { published: 0, retried: 0, dead: 0 };
  private readonly failures = new Failures();
  readonly kill = new AbortController();
  /** Buckets whose blocked keys are known: only those are read. */
  readonly open = new Set<number>();
  readonly room: Room;
  readonly globalOrder: GlobalOrderGate;
  stopping = false;
  private batchEnds: (() => void)[] = [];
  readonly wakeUps = new WakeUps();

  constructor(readonly deps: TransportRelayDependencies) {
    const { options, store, clock, id, leases } = deps;
    this.ledger = new Ledger(
      { key: (m: OutboxMessage) => m.key, none: () => null, global: () => '' }[options.ordering],
    );
    this.results = new Results(this.ledger, options.ordering);
    // The next owner may have to suspect what is in memory here: so it is no more than is published alone.
    const isTight = (): boolean => leases.crashes(id) >= UNCLEAN_ENDS - 1;
    this.room = new Room(options, this.ledger, () => this.settler.unwritable, isTight);
    this.globalOrder = new GlobalOrderGate(
      async (buckets) => (await store.parked.blockedAmong(id, inOneOrder(buckets))).length > 0,
      () => this.settler.size === 0 && this.flight.batches.size === 0,
      this.wakeUps,
    );
    const mark = lowWaterMarkOn(store.ready, clock);
    const warn = (text: string): void => deps.hooks.emit('warning', { text: `transport '${deps.name}': ${text}` });
    const ofReader = { ownWrites: () => this.settler.writing, known: this.ledger.known, warn, cost: deps.cost };
    this.reader = new Reader(store.ready, id, mark, clock, ofReader);
    const batch = Math.max(1_000, options.batchSize);
    const settings = { transport: id, owner: leases.owner, onPublished: options.onPublished, batch };
    this.settler = new Settler(
      store,
      clock,
      settings,
      (bucket) => leases.lease(id, bucket),
      () => this.reader.headReads,
      (report) => this.written(report),
    );
    this.publisher = publisherOf(deps, (...said) => this.outage.transportState(...said));
    this.gate = new PauseGate(deps);
    this.outage = new Outage(deps, this.ledger, this.wakeUps, () => this.publisher.reconnect(this.kill.signal));
    const payloads = new LargePayloads(deps, (message) => this.trial.markAlone(message));
    const usable = (bucket: number): boolean => this.usable(bucket);
    this.batcher = new Batcher(deps, this.ledger, this.outage.circuit, payloads, usable);
    this.delivery = new Delivery(deps, this.publisher, this.trial, payloads, usable, this.kill.signal);
    this.runs = new RunResults(this.ledger);
    this.parked = new ParkedReader(deps, this.ledger, this.open, this.settler, this.globalOrder);
    leases.register(id, this);
    leases.pauses.listen(id, (pauses) => this.paused(pauses));
  }

  // ── a message, step by step ────────────────────────────────────────────────────────────────────────────────────

  /** Step 1: reads what is ready, where there is room, the broker is there and nothing holds the order. Then it is handed over. */
  async readOnce(): Promise<{ read: number; more: boolean }> {
    if (this.stopping || this.outage.asksParked) return IDLE;
    if (this.outage.circuit.state === 'open') this.giveUpWaiting();
    else this.pump(); // what waited for a circuit or a lease may go, also when there is nothing new
    await this.openBuckets();
    if (this.globalOrder.on) await this.globalOrder.look([...this.open]);
    if (this.gate.isClosed || this.open.size === 0 || this.globalOrder.on || this.room.left < 1)
      return this.probeWithout();
    if (!(await this.outage.mayRead())) return IDLE;
    const [{ probing }, { empty }] = [this.outage, this.room];
    const { messages, durable, more, startedOver, otherServer } = probing
      ? await readProbe(this.reader, this.outage.nextProbe([...this.open]), this.ledger.queues.gateOf)
      : await this.reader.read(Math.min(this.room.left, this.room.readLimit));
    if (startedOver) this.parked.distrust();
    // A failover may have lost it: it is published if it is read again.
    if (otherServer) this.giveUpWaiting();
    await this.acceptRead(messages, durable);
    const { buckets } = this.reader;
    if (probing) return { read: messages.length, more: this.outage.probeAgain(this.flight.messages, buckets) };
    this.batcher.foundNothing('ready', empty && messages.length === 0 && buckets !== undefined);
    this.room.adapt(messages, more);
    return { read: messages.length, more: (more || buckets === undefined) && this.room.left > 0 };
  }

  private async acceptRead(messages: readonly OutboxMessage[], durable: boolean): Promise<void> {
    if (messages.length === 0) return;
    const { restarts } = this.reader;
    let asked = false;
    try {
      if (!durable) await this.deps.store.ready.flush(this.reader.session);
      asked = this.parked.keys.overflow;
      if (asked) await this.parked.ask(messages);
    } catch (error) {
      this.parked.accepted();
      this.reader.rewind(messages);
      throw error;
    }
    if (this.globalOrder.on || restarts !== this.reader.restarts) {
      // Something in front of them was given back meanwhile: all is read again, in order.
      this.reader.rewind(messages);
      this.wakeUps.ready();
    } else this.accept(this.reader.stillOurs(messages));
    if (asked) this.parked.accepted();
  }

  /** Step 2, of the key gate: it waits for its turn; behind a parked one of its key it is parked itself. */
  accept(accepted: readonly OutboxMessage[]): void {
    // A bucket that is drained is closed a moment before its lease goes; what is taken then is taken again by the next owner.
    const messages = accepted.filter(({ bucket }) => this.open.has(bucket));
    this.ledger.enter(messages);
    if (this.gate.isClosed) return this.run(this.results.release(messages)); // it was read or taken while a pause began
    const { keys } = this.parked;
    const isSomeBlocked = this.deps.options.ordering === 'key' && (keys.size > 0 || keys.overflow);
    for (const message of messages) {
      const { bucket, key, parkedId } = message;
      if (isSomeBlocked && parkedId === null && key !== null && this.parked.isBlocked(bucket, key))
        this.run(this.results.behindParked(message, key));
      else {
        this.trial.meet(message);
        this.ledger.accept(message);
      }
    }
    this.pump();
  }

  /** Step 3, by the batcher: hands over what may go now. Synchronous; called whenever something changed. */
  pump(): void {
    for (;;) {
      const batch = this.batcher.next(this.outage.destinations.someWait ? this.putOff : undefined);
      if (batch === undefined) return;
      void this.send(batch);
    }
  }

  /** Puts it off instead of a try, where it goes to what takes nothing now, or is paused. @returns whether it does */
  private readonly putOff = (message: OutboxMessage): boolean => {
    const away = this.outage.isAway(message);
    if (away === undefined) return false;
    const outcome = this.outage.destinations.untried(message, away);
    this.run(this.results.putOff(message, outcome, away));
    return true;
  };

  /** Step 4, by the delivery: one batch, until all its messages were answered. */
  private async send(batch: Batch): Promise<void> {
    this.ledger.begin(batch);
    await this.delivery.publish(batch, (index, answer) => this.answered(batch, index, answer));
    this.flight.end(batch);
    this.batcher.ended(batch);
    this.batchEnded();
  }

  /** Step 5: what was said about a message is decided. */
  private answered(batch: Batch, index: number, answer: Answer): void {
    const message = batch.messages[index] as OutboxMessage;
    if (answer === 'late') return void this.gotThroughLate(message);
    this.flight.answered();
    if (answer === 'withdrawn') return this.run(this.results.withdrawn(message, this.open.has(message.bucket)));
    const run = batch.units?.get(index);
    if (run === undefined) this.resolve(message, answer);
    else this.resolveRun(run.unit, this.runs.answered(run.unit, run.index, answer));
    if (this.batcher.isOneByOne) this.pumpSoon();
  }

  /**
   * The key of what is published is free at once, before its row is deleted. Of what a process that dies had published and not
   * deleted, at most what `Room` holds, the next owner publishes all again, in order.
   */
  private resolve(message: OutboxMessage, result: Result): void {
    this.trial.clear(message);
    if (!result.ok) return this.failed(message, result);
    this.published(message);
    this.through(message);
  }

  private resolveRun({ messages }: Unit, end: RunEnd): void {
    if (end === 'open') return;
    for (const message of end === 'through' ? messages : end.published) this.published(message);
    if (end === 'through') this.through(messages.at(-1) as OutboxMessage);
    else this.resolve(end.failed, end.failure);
  }

  private published(message: OutboxMessage): void {
    this.counts.published += 1;
    this.ledger.published(message);
    if (this.outage.isTroubled) this.outage.succeeded(message);
    this.settler.succeed(message);
  }

  private through(last: OutboxMessage): void {
    const barred = this.ledger.queues.resolve(last);
    if (barred.length > 0) this.run(this.results.barred(barred));
  }

  private failed(message: OutboxMessage, failure: Failure): void {
    const isOurs = this.open.has(message.bucket);
    if (!isOurs || message.state === 'leaseLost') return this.run(this.results.lost(message, isOurs, failure));
    const { outcome, charged } = outcomeOf(message, failure, this.outage, this.deps);
    this.failures.note(message, charged.blame, failure.text);
    this.run(this.results.failed(message, outcome, charged));
  }

  /**
   * A call that nobody waited for any more ended well: the message is through, although it was written that it is dead. As with
   * any success the row goes, whatever an operator made of it since, and its key goes on. One that is to be tried again is left
   * to its next try.
   */
  private async gotThroughLate(message: OutboxMessage): Promise<void> {
    if (message.state !== 'dead') return;
    this.ledger.published(message);
    await this.settler.transitions.quiet(); // that it is dead is told before that it is not
    this.counts.published += 1;
    this.ledger.enter([message]);
    this.settler.succeed(message);
  }

  /** Step 6: what follows from a result is done, most of it by the settler, which writes it. */
  private run(effects: readonly Effect[]): void {
    const again: OutboxMessage[] = [];
    for (const effect of effects) {
      switch (effect.do) {
        case 'park':
          this.park(effect.transition);
          break;
        case 'reread':
          again.push(effect.message);
          break;
        case 'continue':
          this.continueKeyOf(effect.message);
          break;
        case 'hold':
          this.globalOrder.hold();
          break;
        case 'fail':
          this.outage.failed(effect.failure.text, effect.message, effect.failure.suspect);
      }
    }
    if (again.length > 0) this.rewind(again);
  }

  private park(transition: Transition): void {
    const { message, state } = transition;
    if (state === 'dead') this.counts.dead += 1;
    else if (isRetry(transition)) this.counts.retried += 1;
    const decided = this.settler.park(transition);
    this.ledger.decide(message, decided);
    this.parked.parking(decided);
  }

  /** They are forgotten; the next read returns them again, in order. */
  private rewind(messages: readonly OutboxMessage[]): void {
    this.reader.rewind(messages);
    this.wakeUps.ready();
  }

  /** The row in front of those that are parked of its key is gone. */
  private continueKeyOf(message: OutboxMessage): void {
    const key = this.ledger.queues.gateOf(message);
    if (key !== null) this.parked.continueKey(message.bucket, key);
    this.wakeUps.parked();
  }

  /** Step 7: the database has written what became of them; room and the keys of failures are free again, and everybody hears of it. */
  private written(report: SettlerReport): void {
    if (report.kind === 'settled') return this.settled(report);
    if (report.kind === 'transitioned') return this.transitioned(report);
    const { operation, error, retryIn } = report;
    this.deps.hooks.emit('error', { operation, error, retryIn });
  }

  /** Gone from the database. */
  private settled({ messages, fence, readsBefore }: Extract<SettlerReport, { kind: 'settled' }>): void {
    const { reader } = this;
    reader.lowWaterMark.wrote(fence, readsBefore);
    this.ledger.settled(messages);
    for (const message of messages) {
      if (message.parkedId === null) reader.settled(message);
      else this.continueKeyOf(message);
    }
    this.roomMade();
    this.lookFor(messages, readsBefore);
    tellPublished(this.deps, messages);
  }

  private transitioned({ transitions, overtaken, written }: Extract<SettlerReport, { kind: 'transitioned' }>): void {
    const { reader, deps } = this;
    reader.lowWaterMark.wrote(written.fence, written.readsBefore);
    let soonest = Infinity;
    for (const transition of transitions) {
      const { message, blocks, delay, wasQuarantined, putOffFor } = transition;
      // Under a later lease the row, if it is still there, was read again, and is known for that.
      const current = deps.leases.lease(deps.id, message.bucket)?.epoch === transition.epoch;
      if (message.parkedId === null && current) reader.settled(message);
      // Dead, and its key goes on; or what it waited behind may be gone.
      const goesOn = written.missed || wasQuarantined === true || (!blocks && message.parkedId !== null);
      if (goesOn && this.ledger.queues.gateOf(message) !== null) this.continueKeyOf(message);
      if (delay !== null) soonest = Math.min(soonest, delay);
      tellTransition(deps, transition);
      if (putOffFor !== undefined) this.outage.destinations.written(putOffFor, message);
    }
    if (soonest < Infinity) this.wakeUps.parked(soonest);
    this.decidedNoMore([...transitions, ...overtaken]);
    this.lookFor(
      transitions.map(({ message }) => message),
      written.readsBefore,
    );
  }

  /** Written, or void: then the rows are as they were, and whoever has the bucket now has read them. That may be us. */
  private decidedNoMore(transitions: readonly Decided[]): void {
    if (transitions.length === 0) return;
    for (const transition of transitions) {
      this.ledger.written(transition);
      this.parked.parked(transition);
    }
    this.roomMade();
  }

  /**
   * They were written, and may be there all the same: who reads now asks another server, which may have lost what was written.
   */
  private lookFor(messages: readonly OutboxMessage[], readsBefore: number): void {
    if (!this.reader.isOfOtherServer(readsBefore)) return;
    const ready = messages.filter(({ parkedId, bucket }) => parkedId === null && this.open.has(bucket));
    if (ready.length > 0) this.rewind(ready);
  }

  // ── what follows from a step ───────────────────────────────────────────────────────────────────────────────────

  /** A slot is free before its batch is through. Those that get free together are filled together. */
  private pumpSoon(): void {
    this.cancelPump ??= this.deps.clock.after(0, () => {
      this.cancelPump = undefined;
      this.pump();
    });
  }
  private cancelPump: (() => void) | undefined;

  private batchEnded(): void {
    if (this.failures.alike.size > 0) this.failures.tell(this.deps);
    if (this.gate.isClosed) this.giveUpWaiting();
    this.pump();
    for (const resolve of this.batchEnds.splice(0)) resolve();
    if (this.globalOrder.on && !this.ledger.queues.has('')) this.wakeUps.parked();
    this.roomMade();
  }

  private roomMade(): void {
    if (this.room.left > 0) this.wakeUps.ready();
  }

  /** Everything that waits is given back; what is being published keeps its key closed. */
  giveUpWaiting(which: (bucket: number) => boolean = () => true): void {
    this.run(this.results.release(this.ledger.withdraw(which)));
  }

  /** Where nothing may be read, a connection is proof enough that the broker is back. */
  private async probeWithout(): Promise<typeof IDLE> {
    if (this.globalOrder.on && (await this.reader.mustReadAgain())) {
      this.parked.distrust();
      this.giveUpWaiting(); // as after a read
    }
    if (this.outage.probing && (await this.outage.mayRead())) this.outage.probeAgain(0, 1);
    return IDLE;
  }

  // ── what is parked ─────────────────────────────────────────────────────────────────────────────────────────────

  /** Takes parked messages whose turn it is; as a probe, one. */
  async parkedOnce(): Promise<typeof NONE_TAKEN> {
    if (this.outage.circuit.allows === 'all') return this.takeParked(Infinity);
    return (await this.outage.probeParked(() => this.takeParked(1))) ?? NONE_TAKEN;
  }

  private async takeParked(most: number): Promise<typeof NONE_TAKEN> {
    const { leftForParked: room, empty } = this.room;
    if (this.stopping || this.gate.isClosed || room < 1) return NONE_TAKEN;
    await this.openBuckets();
    const buckets = [...this.open].filter((bucket) => this.usable(bucket));
    const leases = buckets.map((bucket) => this.deps.leases.lease(this.deps.id, bucket) as Lease);
    const look = () => this.takeOnce(buckets, leases, Math.min(most, room));
    let result = await look();
    if ((await this.outage.destinations.free([...this.open])) > 0 && result.taken === 0) result = await look();
    this.batcher.foundNothing('parked', empty && result.taken === 0);
    if (result.taken === 0) await this.globalOrder.look([...this.open]); // also those that may not be sent from now
    return result;
  }

  private async takeOnce(
    buckets: readonly number[],
    leases: readonly Lease[],
    limit: number,
  ): Promise<typeof NONE_TAKEN> {
    if (buckets.length === 0) return NONE_TAKEN;
    const taken = await this.parked.take(buckets, leases, limit);
    const { nextIn } = taken;
    if (taken.messages === undefined) return { taken: 0, nextIn };
    // A take may come before the first read. The server of a failover in between would pass for the first one.
    this.reader.session ??= taken.markedBeside;
    if (!taken.durable) await this.flushTaken(taken);
    this.parked.took(taken);
    this.accept(taken.messages);
    return { taken: taken.messages.length, nextIn };
  }

  /** Rows that were taken and cannot be vouched for are given back. */
  private async flushTaken(taken: Taken): Promise<void> {
    try {
      await this.deps.store.ready.flush();
    } catch (error) {
      this.ledger.enter(taken.messages);
      this.run(this.results.release(taken.messages));
      this.parked.gaveBack(taken);
      throw error;
    }
  }

  private paused(pauses: readonly Pause[]): void {
    const ended = this.gate.changed(pauses);
    if (ended.length > 0) this.outage.destinations.resumed(ended);
    if (this.gate.isClosed) return this.giveUpWaiting();
    this.wakeUps.ready();
    this.wakeUps.parked();
  }

  // ── leases ─────────────────────────────────────────────────────────────────────────────────────────────────────

  gained(leases: readonly Acquired[]): void {
    const { name, hooks, options } = this.deps;
    const most = options.batchSize * options.batchesInFlight;
    const suspected = this.trial.gained(leases, most);
    const of = `${counted(suspected, 'bucket')} of transport "${name}"`;
    const text = `Owner after owner of ${of} ended while it published. Up to ${counted(most, 'message')} go one by one, or as many of each bucket.`;
    if (suspected > 0) hooks.emit('warning', { text });
    this.batcher.empty.ready = this.batcher.empty.parked = false; // not of these
    this.wakeUps.ready();
  }

  renewed(): void {
    this.wakeUps.ready(); // which hands over first
  }

  lost(buckets: readonly number[]): void {
    this.forget(new Set(buckets));
    this.deps.hooks.emit('leasesLost', { transport: this.deps.name, buckets });
  }

  async drain(buckets: readonly number[]): Promise<readonly number[]> {
    const which = new Set(buckets);
    this.giveUpWaiting((bucket) => which.has(bucket));
    const out = () => new Set([...this.flight.unresolved((bucket) => which.has(bucket))].map(({ bucket }) => bucket));
    while (out().size === which.size) await this.nextBatchEnd();
    for (const bucket of out()) which.delete(bucket);
    await this.settler.quiet();
    this.forget(which);
    return [...which];
  }

  get participates(): boolean {
    return this.outage.participates;
  }

  usable(bucket: number): boolean {
    const { leases, id } = this.deps;
    return !this.stopping && !this.gate.isClosed && leases.usable(id, bucket);
  }

  /** Buckets that were leased since: their blocked keys are read before their first row. */
  async openBuckets(): Promise<void> {
    const { leases, id, options } = this.deps;
    const gained = [...leases.of(id).keys()].filter((bucket) => !this.open.has(bucket) && this.usable(bucket));
    if (gained.length === 0) return;
    const epochs = gained.map((bucket) => leases.lease(id, bucket)?.epoch);
    await this.parked.load(gained);
    const still = gained.filter((bucket, i) => leases.lease(id, bucket)?.epoch === epochs[i] && !this.open.has(bucket));
    if (options.ordering === 'global') this.globalOrder.hold();
    for (const bucket of still) {
      this.open.add(bucket);
      this.reader.add(bucket);
    }
    this.parked.opened(still);
    this.outage.destinations.freeing.add(null, still);
    this.deps.hooks.emit('leasesAcquired', { transport: this.deps.name, buckets: still });
    this.wakeUps.parked();
    await this.globalOrder.look(still); // last: where it fails, nothing above is done again
  }

  private forget(which: ReadonlySet<number>): void {
    this.ledger.lose(which);
    this.decidedNoMore(this.settler.forget(which));
    for (const bucket of which) {
      this.open.delete(bucket);
      this.reader.forget(bucket);
      this.parked.forget(bucket);
    }
  }

  // ── life ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Resolves when nothing is on its way to the broker or to the database; under a load that never ends at the given time. */
  async quiet(until = Infinity): Promise<void> {
    const busy = (): boolean => this.flight.batches.size > 0 && this.deps.clock.monotonic() < until;
    do {
      while (busy()) await this.nextBatchEnd();
      await this.settler.quiet();
    } while (busy());
  }

  private nextBatchEnd(): Promise<void> {
    return new Promise((resolve) => this.batchEnds.push(resolve));
  }

  get flight(): InFlight {
    return this.ledger.flight;
  }

  get trial(): Trial {
    return this.ledger.trial;
  }
}

/** By what reads prove. */
function lowWaterMarkOn({ probe }: Pick<ReadyStore, 'probe'>, clock: Clock): LowWaterMark {
  return probe === undefined ? new SnapshotLowWaterMark() : new ProbedLowWaterMark(() => clock.monotonic());
}
