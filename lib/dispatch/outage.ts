import type { Probe } from '../claim/claimer.js';
import type { OutboxMessage } from '../message.js';
import { errorText } from '../observe/error-text.js';
import { Circuit } from '../publish/circuit.js';
import type { PublishFailure } from '../publish/transport.js';
import type { Outcome } from '../settle/decide.js';
import type { LaneDependencies } from './lane.types.js';
import { delayFor, PuttingOff } from './putting-off.js';

/** What an outage needs of its lane. */
export interface OutageLane {
  giveUpWaiting(): void;
  reconnect(): Promise<void>;
  readonly unresolved: number;
  /** What is being published is one single message: if that fails, no neighbour did it. */
  readonly onlyOne: boolean;
  markAlone(message: OutboxMessage): void;
  wanted(what: 'read' | 'parked'): void;
}

/**
 * What happens to a lane while its broker is away: nothing is claimed, nobody is charged, one probe at a time asks whether
 * it is back. Probes rotate over the buckets; once a message failed alone, every other one looks for a parked message first,
 * as all that is ready may be that one. A message that fails alone while others get through, three times in a row, is no
 * outage of the transport: it is put off, and charged only where it may be what kills the connection.
 */
export class Outage {
  readonly circuit = new Circuit();
  readonly suspects = new Map<string, Strikes>();
  readonly puttingOff = new PuttingOff();
  failedAlone: string | undefined;
  /** Of that one: whether it may have broken the connection. @internal */
  brokeAlone = false;
  /** @internal */ toldOpen = false;
  reconnected = false;
  triedBuckets = 0;
  lastProbe = -1;
  /** @internal */ parkedFirst = false;
  /** @internal */ probes = 0;
  /** @internal */ stopped = false;
  /** @internal */ cancelProbe: (() => void) | undefined;

  constructor(
    readonly lane: OutageLane,
    readonly deps: LaneDependencies,
  ) {}

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
    const { clock, random, hooks, name } = this.deps;
    if (message !== undefined) {
      if (this.lane.onlyOne) {
        this.failedAlone = message.id;
        this.brokeAlone = suspect === 'message';
      }
      if (clock.monotonic() - this.circuit.closedAt < FLAPPING) this.lane.markAlone(message);
    }
    const retryIn = this.circuit.fail(error, clock.monotonic(), random());
    if (retryIn === undefined) return;
    this.lane.giveUpWaiting();
    this.toldOpen = true;
    hooks.emit('circuitOpened', { transport: name, error: errorText(error), retryIn });
    if (!this.stopped) this.cancelProbe = clock.after(retryIn, () => this.startProbe());
  }

  /** No probe any more. */
  stop(): void {
    this.stopped = true;
    this.cancelProbe?.();
  }

  /** After a stop: whatever was waited for then, a probe asks. */
  goOn(): void {
    this.stopped = false;
    if (this.circuit.state === 'blocked') this.failed(this.circuit.lastError);
    if (this.circuit.state === 'open') this.startProbe();
  }

  /** A message that gets through changes something. */
  get isTroubled(): boolean {
    return this.circuit.isTroubled || this.suspects.size > 0 || !this.puttingOff.isFull;
  }

  /** A message got through; without one, a connection attempt. */
  succeeded(message?: OutboxMessage): void {
    if (message !== undefined) {
      this.suspects.delete(message.id);
      this.puttingOff.gotThrough();
    }
    const openFor = this.circuit.succeed(this.deps.clock.monotonic(), message === undefined ? 'connection' : 'message');
    if (openFor === undefined) return;
    // A connection convicts nobody: there are brokers that take connections, and no writes.
    if (message !== undefined && this.failedAlone !== undefined && this.failedAlone !== message.id)
      this.suspect(this.failedAlone);
    this.failedAlone = undefined;
    this.closed(openFor);
  }

  /** @internal */ closed(openFor: number): void {
    const { hooks, name } = this.deps;
    if (this.toldOpen) hooks.emit('circuitClosed', { transport: name, openFor });
    this.toldOpen = false;
    this.lane.wanted('read');
    this.lane.wanted('parked');
  }

  /** Turns the failure of a message that keeps killing the connection into its own. */
  charge(message: OutboxMessage, failure: PublishFailure): PublishFailure {
    // What ended the connection ended the wait for the broker's word: nobody says `up` of a new one.
    if (this.circuit.state === 'blocked' && failure.blame === 'transport' && failure.suspect !== 'destination')
      this.failed(errorText(failure.error, [message]));
    if (failure.blame === 'message' || failure.suspect !== 'message') return failure;
    if ((this.suspects.get(message.id)?.broke ?? 0) < STRIKES) return failure;
    this.suspects.delete(message.id);
    return { ...failure, blame: 'message' };
  }

  /** What becomes of a message that would stay where it is: one that only itself cannot get through is put off, without an attempt. */
  insteadOf(release: Release, message: OutboxMessage, { suspect, error }: PublishFailure): Outcome {
    const { leases, random } = this.deps;
    if (release.alone && !this.lane.onlyOne) return release;
    const isDestination = suspect === 'destination';
    // One that may have broken the connection is an outage until it is convicted of that.
    if (!(isDestination ? this.maySetAside(message) : suspect === undefined && this.isSuspect(message))) return release;
    if (this.probing) {
      // The broker answers: another message may get through. Else nothing is proved.
      if (isDestination) this.probeNext();
      else this.failed(errorText(error, [message]), message);
    }
    return { kind: 'retry', attempts: message.attempts, delay: delayFor(message, leases.now, random()) };
  }

  /** The transport itself noticed, before a publish failed. */
  transportState(state: 'up' | 'down' | 'blocked', reason: unknown): void {
    const now = this.deps.clock.monotonic();
    if (state === 'blocked') this.circuit.block(reason ?? 'The broker asks to wait.', now);
    else if (state === 'down') this.failed(reason ?? 'The connection is gone.');
    else {
      const openFor = this.circuit.unblock(now);
      if (openFor !== undefined) this.closed(openFor);
    }
  }

  /** Whether the ready table may be read now. While probing, a new connection comes first. */
  async mayRead(): Promise<boolean> {
    if (this.circuit.allows === 'all') return true;
    if (!this.probing || this.lane.unresolved > 0) return false;
    if (this.reconnected) return true;
    try {
      await this.lane.reconnect();
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
      this.lane.wanted('read');
    }
  }

  /** Which bucket to ask for a probe, and by which chance to take it. */
  nextProbe(buckets: readonly number[]): Probe {
    this.lastProbe = (this.lastProbe + 1) % Math.max(1, buckets.length);
    return { bucket: buckets[this.lastProbe], random: this.deps.random() };
  }

  /** After a probe read: whether to look into another bucket. With nothing to publish, a connection is proof enough. */
  probeAgain(found: number, buckets: number): boolean {
    if (found > 0) return false;
    this.triedBuckets += 1;
    if (this.triedBuckets >= buckets && this.probing) this.succeeded();
    return true;
  }

  /** One that was put off before costs nothing more; in a probe it takes the turn of another. @internal */
  maySetAside({ parkedId }: OutboxMessage): boolean {
    return (parkedId !== null && !this.probing) || this.puttingOff.spend();
  }

  /** @internal */ probeNext(): void {
    this.circuit.state = 'open';
    this.triedBuckets = 0; // there is something to publish
    const again = (): void => {
      this.circuit.probe();
      this.lane.wanted('read');
    };
    if (!this.stopped) this.cancelProbe = this.deps.clock.after(SOON, again);
  }

  /** @internal */ startProbe(): void {
    this.puttingOff.refill();
    this.reconnected = false;
    this.triedBuckets = 0;
    this.probes += 1;
    this.parkedFirst = this.failedAlone !== undefined && this.probes % 2 === 0;
    this.circuit.probe();
    this.lane.wanted(this.parkedFirst ? 'parked' : 'read');
  }

  /** @internal */ isSuspect({ id }: OutboxMessage): boolean {
    return (this.suspects.get(id)?.alone ?? 0) >= STRIKES;
  }

  /** @internal */ suspect(id: string): void {
    if (this.suspects.size >= MAX_SUSPECTS) this.suspects.clear();
    const { alone, broke } = this.suspects.get(id) ?? { alone: 0, broke: 0 };
    this.suspects.set(id, { alone: alone + 1, broke: broke + Number(this.brokeAlone) });
  }
}

/** Times that a message failed alone and another one got through after it; of these, times that it may have broken the connection. */
interface Strikes {
  readonly alone: number;
  readonly broke: number;
}
type Release = Extract<Outcome, { kind: 'release' }>;

const STRIKES = 3;
/** Milliseconds to the next probe of a broker that answers. */
const SOON = 10;
const MAX_SUSPECTS = 1_000;
/** Milliseconds after a recovery in which another failure makes its messages go one by one. */
const FLAPPING = 10_000;
