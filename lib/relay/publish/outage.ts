import type { Roles } from '../../store/outbox-store.js';
import { inCleanScope } from '../../time/async-scope.js';
import type { Probe } from '../read/read-probe.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { errorText } from '../../observe/redact/error-text.js';
import type { Failure } from './batch.types.js';
import { Circuit } from './circuit.js';
import type { InFlight } from './in-flight.js';
import type { PublishFailure } from '../../transports/transport.js';
import { agedOut, type Outcome } from '../settle/decide.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import type { WakeUps } from '../wake/wake-ups.js';
import { Destinations, type PutOffFor } from './destinations.js';
import type { Trial } from './trial.js';

/**
 * What happens to a relay while its broker is away: nothing is claimed, nobody is charged, one probe at a time asks whether
 * it is back. Probes rotate over the buckets; once a message failed alone, every other one looks for a parked message first,
 * as all that is ready may be that one. A message that fails alone while others get through, three times in a row, is no
 * outage of the transport: it is put off, and charged only where it may be what kills the connection.
 */
export class Outage {
  readonly circuit = new Circuit();
  /** What is away while others are there. */
  readonly destinations: Destinations;
  /**
   * How many messages in a row may be put off because of their destinations before that is an outage of the transport: each one
   * that gets through allows one more, up to {@link MOST_PUT_OFF}. While most get through, the others are put off one by one; a
   * whole cluster that refuses is noticed after so many, and all others stay where they are. Each time that the circuit asks whether
   * the broker is back, so many may be put off again, or those in front would keep the others from being asked.
   */
  private mayBePutOff = 0;
  /** It was not the connection that failed. */
  private openedByKey = false;
  private toldOpen = false;
  private reconnected = false;
  private triedBuckets = 0;
  private lastProbe = -1;
  private parkedFirst = false;
  private probes = 0;
  private stopped = false;
  private cancelProbe: (() => void) | undefined;

  constructor(
    private readonly deps: TransportRelayDependencies<Roles<'parked'>>,
    private readonly ledger: { readonly flight: Pick<InFlight, 'messages' | 'onlyOne'>; readonly trial: Trial },
    private readonly wakeUps: WakeUps,
    private readonly reconnect: () => Promise<void>,
  ) {
    this.destinations = new Destinations(deps, wakeUps);
  }

  get probing(): boolean {
    return this.circuit.state === 'probing';
  }

  /** An instance that cannot reach the broker for a while leaves the buckets to those that can. */
  get participates(): boolean {
    const { state, openedAt } = this.circuit;
    return state === 'closed' || this.deps.clock.monotonic() - openedAt < this.deps.options.lease / 3;
  }

  /** A publish failed and it was nobody's message. */
  failed(error: unknown, message?: OutboxMessage, suspect?: PublishFailure['suspect']): void {
    const { clock, random, hooks, name, options } = this.deps;
    if (message !== undefined) {
      const { flight, trial } = this.ledger;
      if (flight.onlyOne) trial.failed = { id: message.id, broke: suspect === 'message' };
      if (clock.monotonic() - this.circuit.closedAt < options.publishTimeout + FLAPPING) trial.markAlone(message);
    }
    const isKey = suspect === 'key';
    const retryIn = this.circuit.fail(error, clock.monotonic(), random(), isKey ? KEY_PROBES : undefined);
    if (retryIn === undefined || this.stopped) return;
    this.openedByKey = isKey;
    this.wakeUps.ready(); // what waits is given back
    this.toldOpen = true;
    hooks.emit('circuitOpened', { transport: name, error: errorText(error), retryIn });
    this.cancelProbe = clock.after(retryIn, () => this.startProbe());
  }

  /** No probe any more. What fails from now on was broken off by the stop. */
  stop(): void {
    this.stopped = true;
    this.cancelProbe?.();
  }

  /** A message that gets through changes something. */
  get isTroubled(): boolean {
    const { circuit, mayBePutOff, destinations, ledger } = this;
    return circuit.isTroubled || ledger.trial.isOpen || mayBePutOff < MOST_PUT_OFF || !destinations.areThere;
  }

  /** A message got through; without one, a connection attempt. */
  succeeded(message?: OutboxMessage): void {
    if (message !== undefined) {
      this.mayBePutOff = Math.min(MOST_PUT_OFF, this.mayBePutOff + 1);
      this.destinations.gotThrough(message);
    }
    const openFor = this.circuit.succeed(this.deps.clock.monotonic(), message === undefined ? 'connection' : 'message');
    // A connection convicts nobody: there are brokers that take connections, and no writes. Nor does it clear anybody.
    if (message !== undefined) this.ledger.trial.gotThrough(message, this.circuit.state === 'closed');
    if (openFor !== undefined) this.closed(openFor);
  }

  private closed(openFor: number): void {
    const { hooks, name } = this.deps;
    if (this.toldOpen) hooks.emit('circuitClosed', { transport: name, openFor });
    this.toldOpen = false;
    this.wakeUps.ready();
    this.wakeUps.parked();
  }

  /** Turns the failure of a message that keeps killing the connection into its own. */
  charge(message: OutboxMessage, failure: Failure): Failure {
    // What ended the connection ended the wait for the broker's word: nobody says `up` of a new one.
    const { blame, suspect } = failure;
    if (this.circuit.state === 'blocked' && blame === 'transport' && suspect !== 'destination' && suspect !== 'handler')
      this.failed(failure.text);
    // Who is charged for a destination that others would be charged for as well: health tells where.
    if (blame === 'message') this.destinations.failed(message, failure);
    if (blame === 'message' || suspect !== 'message' || !this.ledger.trial.convict(message)) return failure;
    return { ...failure, blame: 'message' };
  }

  /** What becomes of a message that would stay where it is: one that only itself cannot get through is put off, without an attempt. */
  insteadOf(release: Release, message: OutboxMessage, failure: Failure): Outcome {
    const { leases, options } = this.deps;
    const { suspect, text } = failure;
    const dead = this.ages(failure) ? agedOut(message, options.retry, leases.now) : undefined;
    if (dead !== undefined) return dead;
    if (release.alone && !this.ledger.flight.onlyOne) return release;
    const isDestination = suspect === 'destination' || suspect === 'key' || suspect === 'handler';
    if (isDestination) this.destinations.failed(message, failure);
    // One that may have broken the connection is an outage until it is convicted of that.
    if (
      !(isDestination
        ? this.mayPutOff(message, failure)
        : suspect === undefined && this.ledger.trial.failsAlone(message))
    )
      return release;
    if (this.probing) {
      // The broker answers: another message may get through. Else nothing is proved.
      if (isDestination) this.probeNext();
      else this.failed(text, message);
    }
    return { kind: 'retry', attempts: message.attempts, delay: this.destinations.delayOf(message, failure) };
  }

  /** The transport itself noticed, before a publish failed; its connection may be of anybody's making. */
  transportState(state: 'up' | 'down' | 'blocked', reason?: unknown): void {
    inCleanScope(() => this.noticed(state, reason));
  }

  private noticed(state: 'up' | 'down' | 'blocked', reason: unknown): void {
    if (this.stopped) return;
    const now = this.deps.clock.monotonic();
    if (state === 'blocked') {
      this.circuit.block(reason ?? 'The broker asks to wait.', now);
      this.deps.leases.tellNow();
    } else if (state === 'down') this.failed(reason ?? 'The connection is gone.');
    else {
      const openFor = this.circuit.unblock(now);
      if (openFor !== undefined) this.closed(openFor);
    }
  }

  /** Whether the ready table may be read now. While probing, a new connection comes first. */
  async mayRead(): Promise<boolean> {
    if (this.circuit.allows === 'all') return true;
    if (!this.probing || this.ledger.flight.messages > 0) return false;
    if (this.reconnected) return true;
    try {
      await this.reconnect();
      this.reconnected = true;
      return this.probing;
    } catch (error) {
      this.failed(error);
      return false;
    }
  }

  /** The probe looks for a parked message first: until it has, nothing that is ready is read. */
  get asksParked(): boolean {
    return this.probing && this.parkedFirst;
  }

  /** Has one parked message taken, if that is what the probe looks for. With none due it goes on in the ready table. */
  async probeParked<T>(take: () => Promise<T>): Promise<T | undefined> {
    if (!this.asksParked) return undefined;
    try {
      return (await this.mayRead()) ? await take() : undefined;
    } finally {
      this.parkedFirst = false;
      this.wakeUps.ready();
    }
  }

  /** Which bucket to ask for a probe, and by which chance to take it. */
  nextProbe(buckets: readonly number[]): Probe {
    this.lastProbe = (this.lastProbe + 1) % Math.max(1, buckets.length);
    return { bucket: buckets[this.lastProbe], random: this.deps.random() };
  }

  /**
   * After a probe read: whether to look into another bucket. With nothing to publish, a connection is proof enough.
   * @param buckets `undefined` while some cannot be read yet
   */
  probeAgain(found: number, buckets: number | undefined): boolean {
    if (found > 0) return false;
    this.triedBuckets = buckets === undefined ? 0 : this.triedBuckets + 1;
    if (buckets !== undefined && this.triedBuckets >= buckets && this.probing) this.succeeded();
    return true;
  }

  /** One that was put off before costs nothing more; in a probe it takes the turn of another. */
  private mayPutOff({ parkedId }: OutboxMessage, { suspect, destination, certain }: PublishFailure): boolean {
    if (suspect === 'handler' || (certain === true && destination !== undefined)) return true;
    if (destination !== undefined && this.destinations.isProved(destination)) return true;
    if (parkedId !== null && !this.probing) return true;
    if (this.mayBePutOff === 0) return false;
    this.mayBePutOff -= 1;
    return true;
  }

  /** Where it goes takes nothing now, or it is paused, so that it is put off instead of being tried. In a probe it takes nobody's turn. */
  isAway(message: OutboxMessage): PutOffFor | undefined {
    const away = this.destinations.of(message);
    if (away !== undefined) this.triedBuckets = 0; // there is something to publish
    return away;
  }

  /** While nobody gets through, nobody is too old. */
  private ages({ suspect, retryIn, destination = '', certain }: PublishFailure): boolean {
    if (suspect === 'destination') return certain === true || this.destinations.isProved(destination);
    return suspect === 'key' || (suspect === 'handler' && retryIn === undefined);
  }

  private probeNext(): void {
    this.circuit.state = 'open';
    this.triedBuckets = 0; // there is something to publish
    const again = (): void => {
      this.circuit.probe();
      this.wakeUps.ready();
    };
    if (!this.stopped) this.cancelProbe = this.deps.clock.after(SOON, again);
  }

  private startProbe(): void {
    this.mayBePutOff = MOST_PUT_OFF;
    this.reconnected = this.openedByKey;
    this.triedBuckets = 0;
    this.probes += 1;
    this.parkedFirst = this.ledger.trial.failed !== undefined && this.probes % 2 === 0;
    this.circuit.probe();
    if (this.parkedFirst) this.wakeUps.parked();
    else this.wakeUps.ready();
  }
}

type Release = Extract<Outcome, { kind: 'release' }>;

const MOST_PUT_OFF = 50;
/** Milliseconds to the next probe of a broker that answers. */
const SOON = 10;
/** Milliseconds between probes at most while all that is read waits for the keys of its payloads. */
const KEY_PROBES = 5_000;
/** Milliseconds, beyond those in which an answer may come, after a recovery in which another failure makes its messages go one by one. */
const FLAPPING = 10_000;
