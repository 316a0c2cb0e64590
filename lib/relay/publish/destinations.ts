import type { Roles } from '../../store/outbox-store.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { errorText } from '../../observe/redact/error-text.js';
import { nameOfPause, type Pause } from '../../store/pauses/pause-store.js';
import type { ExpectedMessages, MissingDestination, PublishFailure } from '../../transports/transport.js';
import { agedOut, timeLeft, type Outcome } from '../settle/decide.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import type { WakeUps } from '../wake/wake-ups.js';
import type { Failure } from './batch.types.js';
import { Circuit } from './circuit.js';
import { Freeing } from './freeing.js';

/** A destination that takes nothing now, while others may. */
export interface AwayDestination {
  readonly name: string;
  /** Milliseconds since its first failure, or since it was found missing. */
  readonly awayFor: number;
  /** Times that a message to it was put off; 0: it is missing, and no message went there yet. */
  readonly putOff: number;
  readonly error: string;
  /** Of messages that went there; `null`: more than are kept. */
  readonly topics: readonly string[] | null;
}

/** What is known of a destination from its first failure, or since it was found missing, until it is back. */
interface Destination {
  readonly name: string;
  readonly since: number;
  /** Open since a message failed, probing while one is tried; closed: no message went there yet. */
  readonly circuit: Circuit;
  error: string;
  putOff: number;
  lastAt: number;
  /** Monotonic: until then none of its messages is tried, once it is guarded. */
  nextTry: number;
  /** Its messages are put off without a try, and one is tried now and then; else each is tried. */
  isGuarded: boolean;
  /** Said the last look. */
  isMissing: boolean;
  /** Of a message for which it is missing, for certain: what a look asks about. */
  place: ExpectedMessages | undefined;
  /** Of messages that were put off; `null`: more than are kept. */
  topics: Set<string> | null;
  /** Of `passed`, when it went away. */
  readonly passedBefore: number;
}

/** For what a message is put off without a try: a destination that takes nothing, or a pause, which is no failure. */
export type PutOffFor = Destination | { readonly pause: Pause; readonly error: null };
const isPause = (away: PutOffFor): away is Exclude<PutOffFor, Destination> => 'pause' in away;

/**
 * The circuits of the destinations of one transport that take nothing now, by the names that {@link PublishFailure.destination}
 * gave them. While others get through, one message is tried now and then, and all others are put off without a try, their keys
 * behind them. The first that gets through frees all of them. So are the messages of a topic or a key that an operator has
 * paused; of these none is tried, and the end of the pause frees them. Kept in memory: a restart learns it again from the first failure.
 */
export class Destinations {
  readonly freeing: Freeing;
  private readonly away = new Map<string, Destination>();
  /** Messages that got through while some were away. */
  private passed = 0;

  constructor(
    private readonly deps: TransportRelayDependencies<Roles<'parked'>>,
    private readonly wakeUps: WakeUps,
  ) {
    this.freeing = new Freeing(deps);
  }

  get areThere(): boolean {
    return this.away.size === 0;
  }

  /** Some messages may not be tried now. */
  get someWait(): boolean {
    const { id, leases } = this.deps;
    return this.away.size > 0 || leases.pauses.hasParts(id);
  }

  /** A message failed. Over its destination: health names that, and so does an event. */
  failed(message: OutboxMessage, { destination, suspect, certain = false, text }: Failure): void {
    const { clock, random } = this.deps;
    const now = clock.monotonic();
    if (destination === undefined) return this.failedOfItself(message, now);
    if (this.away.size >= MOST && !this.away.has(destination)) return; // each of its messages is tried
    const one = this.away.get(destination) ?? this.add(destination, text);
    Object.assign(one, { lastAt: now, error: text });
    note(one, message);
    // Those that failed together are tried again together, which is one of them.
    if (now >= one.nextTry) one.circuit.probe();
    const retryIn = one.circuit.fail(text, now, random());
    if (retryIn !== undefined) one.nextTry = now + retryIn;
    one.isGuarded ||= certain || (suspect === 'destination' && this.isProved(destination));
    if (certain) one.place ??= { topic: message.topic, options: message.options };
  }

  /** What a look found missing, of all that it asked about. That puts no message off: what goes there is tried, and says so itself. */
  looked(found: readonly MissingDestination[]): void {
    const names = new Set(found.map(({ destination }) => destination));
    for (const one of [...this.away.values()]) if (one.isMissing && !names.has(one.name)) this.end(one);
    for (const { destination, error } of found) {
      const known = this.away.get(destination);
      if (known === undefined && this.away.size >= MOST) continue;
      (known ?? this.add(destination, errorText(error))).isMissing = true;
    }
  }

  /** What a look is to ask about, beside what is known before there is a message. */
  toAskAbout(): ExpectedMessages[] {
    this.review();
    return [...this.away.values()].flatMap(({ place }) => place ?? []);
  }

  /** Why it is not to be tried now; asked right before it would be handed over. If a try is due, this message is that. */
  of(message: OutboxMessage): PutOffFor | undefined {
    const { id, leases, clock, options } = this.deps;
    const pause = leases.pauses.partOf(id, message);
    if (pause !== undefined) return { pause, error: null };
    const now = clock.monotonic();
    const guarded = this.awayOf(message).filter(({ isGuarded }) => isGuarded);
    const away = guarded.find(({ nextTry }) => now < nextTry);
    if (away !== undefined) return away;
    for (const one of guarded) {
      one.circuit.probe();
      one.nextTry = now + options.publishTimeout + MARGIN;
    }
    return undefined;
  }

  /** What becomes of a message that is put off without a try. However old it gets, where an operator holds it back. */
  untried(message: OutboxMessage, away: PutOffFor): RetryOrDead {
    const { options, leases, random } = this.deps;
    if (!isPause(away) || away.pause.key === null) this.freeing.without(message.topic);
    // Only what has no attempt yet is freed with the others.
    const long = message.attempts === 0 ? LONG * (0.5 + random() / 2) : delayFor(message, leases.now, random());
    let left = Infinity;
    if (!isPause(away)) {
      const dead = agedOut(message, options.retry, leases.now);
      if (dead !== undefined) return dead;
      note(away, message);
      left = timeLeft(message, options.retry, leases.now);
    }
    return { kind: 'retry', attempts: message.attempts, delay: Math.round(Math.min(long, Math.max(SHORT, left))) };
  }

  /** Its row is written: if what it waits for came back meanwhile, it was not freed. */
  written(away: PutOffFor, { topic, bucket }: Pick<OutboxMessage, 'topic' | 'bucket'>): void {
    if (isPause(away) ? this.isPaused(away.pause) : this.away.get(away.name) === away) return;
    this.freeing.add([topic], [bucket]);
    this.wakeUps.parked();
  }

  /** An operator ended these pauses of topics and keys. */
  resumed(pauses: readonly Pause[]): void {
    const topics = new Set(pauses.map(({ topic }) => topic));
    this.freeing.add(topics.has(null) ? null : (topics as Set<string>));
    this.wakeUps.parked();
  }

  gotThrough(message: OutboxMessage): void {
    if (this.away.size === 0) return;
    for (const one of this.awayOf(message)) this.end(one);
    this.passed += 1;
  }

  /** Others got through since it went away: that is no outage of the transport, however many of its messages fail. */
  isProved(name: string): boolean {
    const one = this.away.get(name);
    return one !== undefined && this.passed > one.passedBefore;
  }

  /** Milliseconds for which a message is put off that was tried. */
  delayOf(message: OutboxMessage, { suspect, destination = '', retryIn }: PublishFailure): number {
    const { leases, random, clock } = this.deps;
    if (retryIn !== undefined) return retryIn;
    const one = suspect === 'destination' || suspect === 'handler' ? this.away.get(destination) : undefined;
    if (one === undefined) return delayFor(message, leases.now, random());
    return Math.max(0, Math.round(one.nextTry - clock.monotonic()));
  }

  /** Makes due a part of what waits for a destination that is back. @param held buckets @returns rows that are due now */
  async free(held: readonly number[]): Promise<number> {
    this.review();
    const freed = await this.freeing.next(held);
    const { dueIn } = this.freeing;
    if (dueIn !== undefined) this.wakeUps.parked(dueIn);
    return freed;
  }

  /** Those that are away, the longest first. */
  list(now: number): AwayDestination[] {
    this.review();
    return [...this.away.values()]
      .map(({ name, since, putOff, error, topics }) => {
        return { name, awayFor: now - since, putOff, error, topics: topics && [...topics] };
      })
      .sort((a, b) => b.awayFor - a.awayFor);
  }

  /**
   * Of one that nobody asked for long nothing is known: it is forgotten, without a word. Where a try is overdue, as the message that
   * was to be it is gone (cancelled, or too old), all are freed, and one of them is it.
   */
  private review(): void {
    const now = this.deps.clock.monotonic();
    for (const one of [...this.away.values()]) {
      if (now - one.lastAt > FORGOTTEN && (one.place !== undefined || !one.isMissing)) this.end(one, false);
      else if (one.isGuarded && now > one.nextTry + OVERDUE) {
        one.nextTry = now;
        this.freeing.add(one.topics);
      }
    }
  }

  /** The message that was the try failed of itself, which says nothing of the destination: the next one is a try at once. */
  private failedOfItself(message: OutboxMessage, now: number): void {
    for (const one of this.awayOf(message)) if (one.circuit.state === 'probing') one.nextTry = now;
  }

  private awayOf(message: OutboxMessage): Destination[] {
    if (this.away.size === 0) return [];
    const names = [this.deps.transport.destinationOf?.(message) ?? []].flat();
    return names.flatMap((name) => this.away.get(name) ?? []);
  }

  private isPaused(pause: Pause): boolean {
    const { list = [] } = this.deps.leases.pauses;
    return list.some((each) => nameOfPause(each) === nameOfPause(pause));
  }

  private add(name: string, error: string): Destination {
    const { hooks, name: transport, clock } = this.deps;
    const now = clock.monotonic();
    const one: Destination = {
      ...{ name, error, since: now, lastAt: now, nextTry: now, passedBefore: this.passed },
      ...{ putOff: 0, isGuarded: false, isMissing: false, place: undefined, topics: new Set<string>() },
      circuit: new Circuit(FIRST_PAUSE, LONGEST_PAUSE),
    };
    this.away.set(name, one);
    hooks.emit('destinationAway', { transport, destination: name, error });
    return one;
  }

  private end(one: Destination, isKnown = true): void {
    const { hooks, name: transport, clock } = this.deps;
    const { name: destination, since, putOff, topics } = one;
    this.away.delete(destination);
    if (isKnown) hooks.emit('destinationBack', { transport, destination, awayFor: clock.monotonic() - since, putOff });
    if (topics?.size === 0) return;
    this.freeing.add(topics);
    this.wakeUps.parked();
  }
}

type RetryOrDead = Exclude<Outcome, { readonly kind: 'release' }>;

/** One more was put off. */
function note(one: Destination, { topic }: OutboxMessage): void {
  one.putOff += 1;
  one.topics?.add(topic);
  if (one.topics !== null && one.topics.size > MOST_TOPICS) one.topics = null;
}

/**
 * Milliseconds to the next try: about as long again as it is since the message was created, between a second and a minute. So
 * nothing needs to be counted, and what has waited for hours asks once a minute.
 *
 * @param now milliseconds since the epoch, by the clock that said when the message was created: the database's
 * @param random 0 ≤ x < 1
 */
function delayFor({ createdAt }: OutboxMessage, now: number, random: number): number {
  // Plain SQL can say `infinity`, which is no date here.
  return Math.round(Math.min(60_000, Math.max(1_000, now - createdAt.getTime() || 0)) * (0.5 + random / 2));
}

const MOST = 1_000;
const MOST_TOPICS = 100;
/** Milliseconds between two tries: at first, and at most; after that at the latest it is noticed that a destination is back. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 30_000];
/** Milliseconds beyond the time of a publish in which its result is told. */
const MARGIN = 2_000;
/** Milliseconds after which a try that was due is missed. */
const OVERDUE = 5_000;
/** Milliseconds: longer than a message is put off for and then takes to fail again. */
const FORGOTTEN = 180_000;
/** Milliseconds for which a message waits that nobody frees; and those for which any waits at least. */
const LONG = 1_800_000;
const SHORT = 1_000;
