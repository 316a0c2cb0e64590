import type { LeaseListener } from './leases/bucket-leases.js';
import { Reader } from './read/reader.js';
import { mustReadAgain } from './read/must-read-again.js';
import { ProbeFloor } from './read/probe-floor.js';
import { readProbe } from './read/read-probe.js';
import { SnapshotFloor } from './read/snapshot-floor.js';
import type { OutboxMessage } from '../outbox-message.js';
import { Ledger } from './ledger.js';
import type { Publisher } from './publish/publisher.js';
import { Settler } from './settle/settler.js';
import type { Acquired, Lease } from '../store/lease-store.js';
import { GlobalOrderGate } from './order/global-order-gate.js';
import { Batcher, type BatcherEvents } from './publish/batcher.js';
import { IDLE, NONE_TAKEN, publisherOf, timeOfOne, type TransportRelayDependencies } from './relay.types.js';
import type { InFlight } from './publish/in-flight.js';
import { Outage, type OutageRelay } from './publish/outage.js';
import { ParkedReader, type ParkedReaderEvents } from './order/parked-reader.js';
import { Results } from './settle/results.js';
import { Room } from './read/room.js';
import { Standstill } from './leases/standstill.js';

/**
 * The relay of one transport: what it leased, read, hands over and settles. Those of two transports share nothing but the store
 * and the heartbeat, so that a dead broker costs a living one nothing.
 *
 *   reader ─▶ queues (key gate) ─▶ batcher ─▶ results ─▶ settler        parked reader ─▶ queues
 *
 * It does one step when told (`readOnce`, `parkedOnce`); the loops that repeat them are the dispatcher's.
 */
export class TransportRelay implements LeaseListener, OutageRelay, BatcherEvents, ParkedReaderEvents {
  readonly ledger: Ledger;
  readonly reader: Reader;
  readonly settler: Settler;
  readonly publisher: Publisher;
  readonly batcher: Batcher;
  readonly parked: ParkedReader;
  readonly outage: Outage;
  readonly results: Results;
  readonly kill = new AbortController();
  /** Buckets whose blocked keys are known: only those are read. */
  readonly open = new Set<number>();
  readonly room: Room;
  readonly globalOrder: GlobalOrderGate;
  readonly standstill = new Standstill(this);
  stopping = false;
  /** @internal */ batchEnds: (() => void)[] = [];
  /** Tells the loops that there is, or in `ms` will be, work. Set by the dispatcher. */
  wanted: (what: 'read' | 'parked', ms?: number) => void = () => undefined;

  constructor(readonly deps: TransportRelayDependencies) {
    const { options, store, clock, id, leases } = deps;
    this.results = new Results(this);
    this.ledger = new Ledger(
      { key: (m: OutboxMessage) => m.key, none: () => null, global: () => '' }[options.ordering],
    );
    this.room = new Room(options, this.ledger, () => this.settler.unwritable);
    this.globalOrder = new GlobalOrderGate(
      (buckets) => store.hasBlocking(id, buckets),
      () => this.settler.size === 0 && this.flight.batches.size === 0,
      () => this.wanted('read'),
    );
    const floor = store.probe === undefined ? new SnapshotFloor() : new ProbeFloor(() => clock.monotonic());
    this.reader = new Reader(store, id, floor, clock, () => this.settler.writing, undefined, this.ledger.known);
    this.reader.told = (text) => deps.hooks.emit('warning', { text: `transport '${deps.name}': ${text}` });
    const batch = Math.max(1_000, options.batchSize);
    const settings = { transport: id, owner: leases.owner, onPublished: options.onPublished, batch };
    this.settler = new Settler(
      store,
      clock,
      settings,
      (bucket) => leases.lease(id, bucket),
      () => this.reader.reads,
      this.results,
    );
    this.publisher = publisherOf(deps);
    this.outage = new Outage(this, deps);
    this.batcher = new Batcher(deps, this.ledger, this.publisher, this.outage.circuit, this, this.kill.signal);
    this.parked = new ParkedReader(deps, this.ledger, this, this.globalOrder);
    deps.transport.onState = (state, reason) => this.outage.transportState(state, reason);
    leases.register(id, this);
  }

  // ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

  gained(leases: readonly Acquired[]): void {
    this.batcher.poison.gained(leases);
    this.wanted('read');
  }

  renewed(): void {
    this.wanted('read'); // which hands over first
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
    return !this.stopping && leases.usable(id, bucket, timeOfOne(options));
  }

  // ── claim ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Reads what is ready and hands it over. */
  async readOnce(): Promise<{ read: number; more: boolean }> {
    if (this.stopping || this.outage.asksParked) return IDLE;
    this.batcher.pump(); // what waited for a circuit or a lease may go, also when there is nothing new
    await this.openBuckets();
    await this.standstill.begin();
    await this.globalOrder.look([...this.open]);
    if (this.open.size === 0 || this.globalOrder.on || this.room.left < 1) return this.probeWithout();
    if (!(await this.outage.mayRead())) return IDLE;
    await this.standstill.end();
    const [{ probing }, { empty }] = [this.outage, this.room];
    const { messages, durable, more, startedOver } = probing
      ? await readProbe(this.reader, this.outage.nextProbe([...this.open]), this.ledger.queues.gateOf)
      : await this.reader.read(Math.min(this.room.left, this.room.readLimit));
    if (startedOver) this.parked.doubt();
    await this.acceptRead(messages, durable);
    const { buckets } = this.reader;
    if (probing) return { read: messages.length, more: this.outage.probeAgain(this.flight.messages, buckets) };
    this.batcher.foundNothing('ready', empty && messages.length === 0 && buckets !== undefined);
    this.room.adapt(messages, more);
    return { read: messages.length, more: (more || buckets === undefined) && this.room.left > 0 };
  }

  /** Where nothing may be read, a connection is proof enough that the broker is back. @internal */
  async probeWithout(): Promise<typeof IDLE> {
    if (this.globalOrder.on && (await mustReadAgain(this.reader))) this.parked.doubt();
    if (this.outage.probing && (await this.outage.mayRead())) this.outage.probeAgain(0, 1);
    return IDLE;
  }

  /** Takes parked messages whose turn it is; as a probe, one. */
  async parkedOnce(): Promise<typeof NONE_TAKEN> {
    if (this.outage.circuit.allows === 'all') return this.takeParked(Infinity);
    return (await this.outage.probeParked(() => this.takeParked(1))) ?? NONE_TAKEN;
  }

  /** @internal */ async takeParked(most: number): Promise<typeof NONE_TAKEN> {
    const { leftForParked: room, empty } = this.room;
    if (this.stopping || room < 1) return NONE_TAKEN;
    await this.openBuckets();
    const buckets = [...this.open].filter((bucket) => this.usable(bucket));
    const leases = buckets.map((bucket) => this.deps.leases.lease(this.deps.id, bucket) as Lease);
    const look = () => this.parked.runOnce(buckets, leases, Math.min(most, room));
    const result = await this.outage.absence.look(look, () => [...this.open], buckets.length);
    this.batcher.foundNothing('parked', empty && result.taken === 0);
    if (result.taken === 0) await this.globalOrder.look([...this.open]); // also those that may not be sent from now
    return result;
  }

  /** Buckets that were leased since: their blocked keys are read before their first row. @internal */
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
    this.wanted('parked');
    await this.globalOrder.look(still); // last: where it fails, nothing above is done again
  }

  /** @internal */ async acceptRead(messages: readonly OutboxMessage[], durable: boolean): Promise<void> {
    if (messages.length === 0) return;
    const { restarts } = this.reader;
    try {
      if (!durable || this.deps.options.durability === 'always') await this.deps.store.flush(this.reader.session);
      if (this.parked.keys.overflow) await this.parked.ask(messages);
    } catch (error) {
      this.reader.rewind(messages);
      throw error;
    }
    if (this.globalOrder.on || restarts !== this.reader.restarts) {
      // Something in front of them was given back meanwhile: all is read again, in order.
      this.reader.rewind(messages);
      this.wanted('read');
    } else this.accept(this.reader.stillOurs(messages));
  }

  /** Under another epoch they are taken again. */
  uncertain = (buckets: readonly number[]): void => this.deps.leases.giveBack(this.deps.id, this, buckets);

  isOpen = (bucket: number): boolean => this.open.has(bucket);

  isAside = (bucket: number, key: string): boolean => this.settler.isAside(bucket, key);

  /** Taken from the parked table and not to be published now. */
  giveBack(messages: readonly OutboxMessage[]): void {
    this.ledger.enter(messages);
    this.results.release(messages);
  }

  accept(accepted: readonly OutboxMessage[]): void {
    // A bucket that is drained is closed a moment before its lease goes; what is taken then is taken again by the next owner.
    const messages = accepted.filter(({ bucket }) => this.open.has(bucket));
    this.ledger.enter(messages);
    const { keys } = this.parked;
    const ask = this.deps.options.ordering === 'key' && keys.size > 0;
    for (const message of messages) {
      if (ask && message.parkedId === null && message.key !== null && keys.has(message.bucket, message.key))
        this.results.behindParked(message, message.key);
      else this.ledger.accept(message);
    }
    this.batcher.pump();
  }

  // ── publish and settle ──────────────────────────────────────────────────────────────────────────────────────────

  batchEnded(): void {
    this.results.tellFailures();
    this.results.rewind();
    this.batcher.pump();
    for (const resolve of this.batchEnds.splice(0)) resolve();
    if (this.globalOrder.on && !this.ledger.queues.has('')) this.wanted('parked');
    this.roomMade();
  }

  roomMade(): void {
    if (this.room.left > 0) this.wanted('read');
  }

  /** Everything that waits is given back; what is being published keeps its key closed. */
  giveUpWaiting(which: (bucket: number) => boolean = () => true): void {
    this.results.release(this.ledger.withdraw(which));
    this.results.rewind();
  }

  reconnect = (): Promise<void> => this.publisher.reconnect(this.kill.signal);

  get flight(): InFlight {
    return this.ledger.flight;
  }

  // ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Resolves when nothing is on its way to the broker or to the database; under a load that never ends at the given time. */
  async quiet(until = Infinity): Promise<void> {
    const busy = (): boolean => this.flight.batches.size > 0 && this.deps.clock.monotonic() < until;
    do {
      while (busy()) await this.nextBatchEnd();
      await this.settler.quiet();
    } while (busy());
  }

  /** @internal */ forget(which: ReadonlySet<number>): void {
    this.ledger.lose(which);
    this.settler.forget(which);
    for (const bucket of which) {
      this.open.delete(bucket);
      this.reader.forget(bucket);
      this.parked.forget(bucket);
    }
  }

  /** @internal */ nextBatchEnd(): Promise<void> {
    return new Promise((resolve) => this.batchEnds.push(resolve));
  }
}
