import type { Roles } from '../../store/outbox-store.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { errorText } from '../../observe/redact/error-text.js';
import type { ToldFailure } from './batch.types.js';
import { keyName } from './decryption-failures.js';
import type { MissingDestination, PublishFailure } from '../../transports/transport.js';
import { agedOut, timeLeft, type Outcome } from '../settle/decide.js';
import { HeldBack, type Hold } from '../pauses/held-back.js';
import type { Pause } from '../../store/pauses/pause-store.js';
import { Destinations, type Away, type Gone } from './destinations.js';
import { Freeing, type Jobs } from './freeing.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { WakeUps } from '../wake-ups.js';
import { delayFor, Turns } from './putting-off.js';

/**
 * What a destination that takes nothing does to its messages, while others get through: one is tried now and then, and all
 * others are put off without a try, their keys behind them. The first that gets through frees all of them. So are the messages
 * of a topic or a key that an operator has paused; of these none is tried, and the end of the pause frees them.
 */
export class Absence {
  readonly destinations: Destinations;
  readonly freeing: Freeing;
  readonly heldBack: HeldBack;
  /** Of messages whose keys are away. */
  readonly turns = new Turns();
  /** There is a destination to ask about. Set by whoever asks. */
  asks: () => void = () => undefined;

  constructor(
    readonly deps: TransportRelayDependencies<Roles<'parked'>>,
    readonly wakeUps: WakeUps,
  ) {
    const { transport } = deps;
    this.freeing = new Freeing(deps);
    this.heldBack = new HeldBack(deps.id, deps.leases.pauses, deps.options.buckets);
    this.destinations = new Destinations(
      (message) => {
        const { encryptionKeyId } = message;
        const names = [transport.destinationOf?.(message) ?? []].flat();
        return encryptionKeyId === null ? names : [...names, keyName(encryptionKeyId)];
      },
      (away, topics, isKnown) => this.isBack(away, topics, isKnown),
    );
  }

  /** A message failed. Over its destination: health names that, and so does an event. */
  failed(message: OutboxMessage, failure: ToldFailure): void {
    const { destination, suspect, certain, text } = failure;
    const { clock, hooks, name, random } = this.deps;
    const { destinations } = this;
    if (destination === undefined) return destinations.failedOfItself(message, clock.monotonic());
    const isNews = destinations.failed(destination, text, clock.monotonic(), random(), message.topic);
    const isKnown = certain === true || (suspect === 'destination' && destinations.isProved(destination));
    if (isKnown) destinations.guard(destination, failure);
    if (certain === true && suspect === 'destination' && destinations.askAbout(destination, message)) this.asks();
    if (isNews) hooks.emit('destinationAway', { transport: name, destination, error: text });
  }

  /** What a look at the destinations that are known beforehand found: told once, and once more when it is there. */
  looked(found: readonly MissingDestination[]): void {
    const { clock, hooks, name } = this.deps;
    for (const { destination, error } of found) {
      const text = errorText(error);
      if (this.destinations.foundMissing(destination, text, clock.monotonic()))
        hooks.emit('destinationAway', { transport: name, destination, error: text });
    }
    this.destinations.foundAllBut(new Set(found.map(({ destination }) => destination)));
  }

  /** Some messages may not be tried now. */
  get isOn(): boolean {
    return !this.destinations.areThere || this.heldBack.isOn;
  }

  /** Why it is not to be tried now; asked right before it would be handed over. */
  of(message: OutboxMessage): PutOffFor | undefined {
    const { clock, options } = this.deps;
    const hold = this.heldBack.of(message);
    if (hold !== undefined) return hold;
    return this.destinations.gate(message, clock.monotonic(), options.publishTimeout + MARGIN);
  }

  /** What becomes of a message that is put off without a try. */
  untried(message: OutboxMessage, away: PutOffFor): Settled {
    const { options, leases } = this.deps;
    if (isHold(away)) return this.untriedInPause(message, away);
    const dead = agedOut(message, options.retry, leases.now);
    if (dead !== undefined) return dead;
    this.destinations.untried(away, message);
    this.freeing.without(message.topic);
    const long = this.untilFreed(message);
    const left = timeLeft(message, options.retry, leases.now);
    return { kind: 'retry', attempts: message.attempts, delay: Math.round(Math.min(long, Math.max(SHORT, left))) };
  }

  /** However old it gets: an operator holds it back. @internal */
  untriedInPause(message: OutboxMessage, { pause, buckets }: Hold): Settled {
    if (pause.key === null) this.freeing.without(message.topic);
    else buckets.add(message.bucket);
    return { kind: 'retry', attempts: message.attempts, delay: Math.round(this.untilFreed(message)) };
  }

  /** Milliseconds. Only what has no attempt yet is freed with the others. @internal */
  untilFreed(message: OutboxMessage): number {
    const { leases, random } = this.deps;
    return message.attempts === 0 ? LONG * (0.5 + random() / 2) : delayFor(message, leases.now, random());
  }

  /** Milliseconds for which a message is put off that was tried. */
  delayOf(message: OutboxMessage, failure: PublishFailure): number {
    const { suspect, destination, retryIn } = failure;
    const { leases, random, clock } = this.deps;
    const now = clock.monotonic();
    if (retryIn !== undefined) return retryIn;
    if (suspect === 'key') return this.turns.next(now);
    if ((suspect === 'destination' || suspect === 'handler') && destination !== undefined)
      return this.destinations.delay(destination, now);
    return delayFor(message, leases.now, random());
  }

  /** Looks at what is due; once more where nothing was, and something is freed. */
  async look(due: () => Promise<Found>, held: Held, looked: number): Promise<Found> {
    const { jobs } = this.freeing;
    const isAll = looked === held().length;
    const found = await due();
    return (await this.free(found, held, isAll, jobs)) && found.taken === 0 ? due() : found;
  }

  /**
   * Brings a part of what waits for a destination that is back.
   * @param found by the last look at what is due
   * @param held asked for each part anew: a bucket that was gained during the look is among them
   * @param isAll whether the look was at all buckets that were held when it began
   * @param jobs what there was to bring then
   * @returns whether something is due now
   */
  async free({ taken, nextIn }: Found, held: Held, isAll = true, jobs: Jobs = this.freeing.jobs): Promise<boolean> {
    const { freeing, destinations } = this;
    const unasked = destinations.areThere ? undefined : destinations.unasked(this.deps.clock.monotonic());
    if (!freeing.isOn && unasked === undefined) return false;
    if (taken === 0 && nextIn === null && isAll) freeing.drop(jobs);
    const freed = await freeing.next(held());
    const some = unasked === undefined ? 0 : await freeing.some(unasked, held());
    const { dueIn } = freeing;
    if (dueIn !== undefined) this.wakeUps.parked(dueIn);
    return freed + some > 0;
  }

  /** Its row is written: if what it waits for came back meanwhile, it was not freed. */
  written(away: PutOffFor): void {
    if (!away.isOver) return;
    if (isHold(away)) return this.resumed([away.pause], away.buckets);
    this.freeing.add(away.topics);
    this.wakeUps.parked();
  }

  /** An operator ended these pauses of topics and keys. @internal */
  resumed(pauses: readonly Pause[], buckets: Iterable<number> = []): void {
    const { topics, buckets: among } = this.heldBack.ended(pauses, buckets);
    if (topics.size > 0) this.freeing.add(topics);
    if (among.size > 0) this.freeing.gain([...among]);
    this.wakeUps.parked();
  }

  /** @internal */ isBack(
    { name: destination, since, putOff }: Gone,
    topics: ReadonlySet<string> | null,
    isKnown: boolean,
  ): void {
    const { hooks, name, clock } = this.deps;
    if (isKnown)
      hooks.emit('destinationBack', { transport: name, destination, awayFor: clock.monotonic() - since, putOff });
    if (topics?.size === 0) return;
    this.freeing.add(topics);
    this.wakeUps.parked();
  }
}

/** For what a message is put off: something takes nothing, or an operator holds it back. */
export type PutOffFor = Away | Hold;
const isHold = (away: PutOffFor): away is Hold => 'pause' in away;

/** Buckets that are held now. */
type Held = () => readonly number[];

interface Found {
  taken: number;
  nextIn: number | null;
}
type Settled = Exclude<Outcome, { readonly kind: 'release' }>;

/** Milliseconds beyond the time of a publish in which its result is told. */
const MARGIN = 2_000;
/** Milliseconds for which a message waits that nobody frees; and those for which any waits at least. */
const LONG = 1_800_000;
const SHORT = 1_000;
