import type { LeaseListener } from './leases/bucket-leases.js';
import { Reader } from './read/reader.js';
import { ProbedLowWaterMark } from './read/probed-low-water-mark.js';
import { readProbe } from './read/read-probe.js';
import { SnapshotLowWaterMark } from './read/snapshot-low-water-mark.js';
import type { OutboxMessage } from '../outbox-message.js';
import { counted } from '../observe/plural.js';
import { Ledger } from './ledger.js';
import type { Publisher } from './publish/publisher.js';
import { Settler, type WriteReport } from './settle/settler.js';
import type { Acquired, Lease } from '../store/lease-store.js';
import type { ReadyStore } from '../store/ready-store.js';
import type { Clock } from '../time/clock.js';
import type { LowWaterMark } from './read/low-water-mark.js';
import { GlobalOrderGate } from './order/global-order-gate.js';
import { Batcher } from './publish/batcher.js';
import type { Batch, Result, Told, Unit } from './publish/batch.types.js';
import { Delivery } from './publish/delivery.js';
import { LargePayloads } from './publish/large-payloads.js';
import { RunResults, type RunEnd } from './publish/run-results.js';
import { IDLE, NONE_TAKEN, publisherOf, timeOfOne, type TransportRelayDependencies } from './relay.types.js';
import type { InFlight } from './publish/in-flight.js';
import { Outage, type OutageRelay } from './publish/outage.js';
import { UNCLEAN_ENDS, type Trial } from './publish/trial.js';
import { PauseGate } from './pauses/gate.js';
import { ParkedReader, type Taken } from './order/parked-reader.js';
import { Results } from './settle/results.js';
import { WriteReports } from './settle/write-reports.js';
import { Room } from './read/room.js';
import { WakeUps } from './wake-ups.js';

/**
 * The relay of one transport: what it leased, read, hands over and settles. Those of two transports share nothing but the store
 * and the heartbeat, so that a dead broker costs a living one nothing.
 *
 *   step                who decides                        who does it                 what comes back
 *   1 read              room, outage, global order         Reader                      messages
 *   2 gate              keys in memory and parked          Ledger                      -
 *   3 batch             key gate, leases, bounds           Batcher                     a batch
 *   4 publish           poison message, large payloads     Delivery, the transport     for each message what is said of it
 *   5 decide            Outage, `decide`: in Results       Settler, which writes       a report of each write
 *   6 apply             -                                  WriteReports, Ledger        room and free keys: back to 1
 *
 * What is parked comes in at step 2: ParkedReader finds and takes it (`parkedOnce`). Parts return what happened, and this calls
 * the next one. It does one step when told (`readOnce`, `parkedOnce`); the loops that repeat them are the dispatcher's.
 */
export class TransportRelay implements LeaseListener, OutageRelay {
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
  readonly reports = new WriteReports(this);
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
    this.results = new Results(this);
    this.ledger = new Ledger(
      { key: (m: OutboxMessage) => m.key, none: () => null, global: () => '' }[options.ordering],
    );
    // The next owner may have to suspect what is in memory here: so it is no more than is published alone.
    const isTight = (): boolean => leases.crashes(id) >= UNCLEAN_ENDS - 1;
    this.room = new Room(options, this.ledger, () => this.settler.unwritable, isTight);
    this.globalOrder = new GlobalOrderGate(
      (buckets) => store.parked.hasBlocking(id, buckets),
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
      () => this.reader.reads,
      (report) => this.written(report),
    );
    this.publisher = publisherOf(deps);
    this.outage = new Outage(this, deps);
    const payloads = new LargePayloads(deps, (message) => this.trial.markAlone(message));
    const usable = (bucket: number): boolean => this.usable(bucket);
    this.batcher = new Batcher(deps, this.ledger, this.outage.circuit, payloads, usable);
    this.delivery = new Delivery(deps, this.publisher, this.trial, payloads, usable, this.kill.signal);
    this.runs = new RunResults(this.ledger);
    this.parked = new ParkedReader(deps, this.ledger, this.open, this.settler, this.globalOrder);
    deps.transport.onState = (state, reason) => this.outage.transportState(state, reason);
    leases.register(id, this);
    this.gate = new PauseGate(this);
  }

  // ── a message, step by step ────────────────────────────────────────────────────────────────────────────────────

  /** Step 1: reads what is ready, where there is room, the broker is there and nothing holds the order. Then it is handed over. */
  async readOnce(): Promise<{ read: number; more: boolean }> {
    if (this.stopping || this.outage.asksParked) return IDLE;
    this.pump(); // what waited for a circuit or a lease may go, also when there is nothing new
    await this.openBuckets();
    await this.globalOrder.look([...this.open]);
    if (this.gate.isClosed || this.open.size === 0 || this.globalOrder.on || this.room.left < 1)
      return this.probeWithout();
    if (!(await this.outage.mayRead())) return IDLE;
    const [{ probing }, { empty }] = [this.outage, this.room];
    const { messages, durable, more, startedOver, otherServer } = probing
      ? await readProbe(this.reader, this.outage.nextProbe([...this.open]), this.ledger.queues.gateOf)
      : await this.reader.read(Math.min(this.room.left, this.room.readLimit));
    if (startedOver) this.parked.doubt();
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
    try {
      if (!durable || this.deps.options.durability === 'always') await this.deps.store.ready.flush(this.reader.session);
      if (this.parked.keys.overflow) await this.parked.ask(messages);
    } catch (error) {
      this.reader.rewind(messages);
      throw error;
    }
    if (this.globalOrder.on || restarts !== this.reader.restarts) {
      // Something in front of them was given back meanwhile: all is read again, in order.
      this.reader.rewind(messages);
      this.wakeUps.ready();
    } else this.accept(this.reader.stillOurs(messages));
  }

  /** Step 2, of the key gate: it waits for its turn; behind a parked one of its key it is parked itself. */
  accept(accepted: readonly OutboxMessage[]): void {
    // A bucket that is drained is closed a moment before its lease goes; what is taken then is taken again by the next owner.
    const messages = accepted.filter(({ bucket }) => this.open.has(bucket));
    this.ledger.enter(messages);
    if (this.gate.isClosed) return this.returnAll(messages);
    const { keys } = this.parked;
    const ask = this.deps.options.ordering === 'key' && keys.size > 0;
    for (const message of messages) {
      if (ask && message.parkedId === null && message.key !== null && keys.has(message.bucket, message.key))
        this.results.behindParked(message, message.key);
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
      const batch = this.batcher.next(this.results.someAreAway ? this.putOff : undefined);
      if (batch === undefined) return;
      void this.send(batch);
    }
  }

  private readonly putOff = (message: OutboxMessage): boolean => this.results.putOff(message);

  /** Step 4, by the delivery: one batch, until all its messages were told. */
  private async send(batch: Batch): Promise<void> {
    this.ledger.begin(batch);
    await this.delivery.publish(batch, (index, told) => this.told(batch, index, told));
    this.flight.end(batch);
    this.batcher.ended(batch);
    this.batchEnded();
  }

  /** Step 5, by `Results`: what was said about a message is decided, and goes to the settler, which writes it. */
  private told(batch: Batch, index: number, told: Told): void {
    const message = batch.messages[index] as OutboxMessage;
    if (told === 'late') return void this.results.gotThroughLate(message);
    this.flight.told();
    if (told === 'withdrawn') return this.results.withdrawn(message);
    const run = batch.units?.get(index);
    if (run === undefined) this.resolve(message, told);
    else this.resolveRun(run.unit, this.runs.told(run.unit, run.index, told));
    if (this.batcher.isOneByOne) this.pumpSoon();
  }

  private resolve(message: OutboxMessage, result: Result): void {
    this.trial.acquit(message);
    if (result.ok) {
      this.results.published(message);
      this.results.through(message);
    } else this.results.failed(message, result);
  }

  private resolveRun({ messages }: Unit, end: RunEnd): void {
    if (end === 'open') return;
    for (const message of end === 'through' ? messages : end.published) this.results.published(message);
    if (end === 'through') this.results.through(messages.at(-1) as OutboxMessage);
    else this.resolve(end.failed, end.failure);
  }

  /** Step 6, by `WriteReports`: the database has written what became of them, and memory and keys are free again. */
  private written(report: WriteReport): void {
    this.reports.apply(report);
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
    this.results.tellFailures();
    this.results.rewind();
    if (this.gate.isClosed) this.giveUpWaiting();
    this.pump();
    for (const resolve of this.batchEnds.splice(0)) resolve();
    if (this.globalOrder.on && !this.ledger.queues.has('')) this.wakeUps.parked();
    this.roomMade();
  }

  roomMade(): void {
    if (this.room.left > 0) this.wakeUps.ready();
  }

  /** Was read or taken while a pause began. */
  private returnAll(messages: readonly OutboxMessage[]): void {
    this.results.release(messages);
    this.results.rewind();
  }

  /** Everything that waits is given back; what is being published keeps its key closed. */
  giveUpWaiting(which: (bucket: number) => boolean = () => true): void {
    this.results.release(this.ledger.withdraw(which));
    this.results.rewind();
  }

  /** Where nothing may be read, a connection is proof enough that the broker is back. */
  private async probeWithout(): Promise<typeof IDLE> {
    if (this.globalOrder.on && (await this.reader.mustReadAgain())) {
      this.parked.doubt();
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
    const result = await this.outage.absence.look(look, () => [...this.open], buckets.length);
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
      this.results.release(taken.messages);
      this.parked.gaveBack(taken);
      throw error;
    }
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

  async drain(buckets: readonly number[]): Promise<void> {
    const which = new Set(buckets);
    this.giveUpWaiting((bucket) => which.has(bucket));
    while (this.flight.unresolved((bucket) => which.has(bucket)).next().done !== true) await this.nextBatchEnd();
    await this.settler.quiet();
    this.forget(which);
  }

  get participates(): boolean {
    return this.outage.participates;
  }

  usable(bucket: number): boolean {
    const { leases, options, id } = this.deps;
    return !this.stopping && !this.gate.isClosed && leases.usable(id, bucket, timeOfOne(options));
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
    this.outage.absence.freeing.gain(still);
    this.deps.hooks.emit('leasesAcquired', { transport: this.deps.name, buckets: still });
    this.wakeUps.parked();
    await this.globalOrder.look(still); // last: where it fails, nothing above is done again
  }

  private forget(which: ReadonlySet<number>): void {
    this.ledger.lose(which);
    this.reports.overtaken(this.settler.forget(which));
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

  reconnect = (): Promise<void> => this.publisher.reconnect(this.kill.signal);

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
