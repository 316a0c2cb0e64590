import type { OutboxMessage } from '../../outbox-message.js';
import type { ExpectedMessages, PublishFailure } from '../../transports/transport.js';
import { waitAfter } from './putting-off.js';

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

/** What was away, or missing, for whoever tells that it is back. */
export type Gone = Pick<Away, 'name' | 'since' | 'putOff'>;
type Missing = Pick<Away, 'name' | 'since' | 'error'>;

export interface Away {
  readonly name: string;
  readonly since: number;
  lastAt: number;
  putOff: number;
  error: string;
  /** Of `passed`, when it failed first. */
  readonly passedBefore: number;
  /** What its messages are put off for without a try; `undefined`: each is tried. */
  failure: PublishFailure | undefined;
  /** Monotonic: until then none of its messages is tried. */
  nextTry: number;
  /** One is on its way. */
  isTried: boolean;
  /** Of messages that were put off without a try; `null`: more than are kept. Empty: none was. */
  topics: Set<string> | null;
  /** Of all messages that were put off; `null`: more than are kept. */
  allTopics: Set<string> | null;
  /** What the broker said to be missing, for certain: a message that went there. */
  missed: ExpectedMessages | undefined;
  /** Where the next look for one of its messages goes on, and when. */
  from: string | null;
  lookAgain: number;
  /** A message got through, or nobody asked for it for long. */
  isOver: boolean;
}

/**
 * SEAM: which destinations of one transport take nothing now, by the names that {@link PublishFailure.destination} gave them
 * (an exchange with a routing key, a topic, the key of an encrypted payload). The first message that gets through to one
 * takes it off the list. Kept in memory: a restart learns it again from the first failure.
 */
export class Destinations {
  private readonly away = new Map<string, Away>();
  /** Those that a look found missing, whether or not a message goes there. */
  readonly missing = new Map<string, Missing>();
  /** Messages that got through to other destinations while some were away. */
  private passed = 0;
  /** Some were too many to be kept. */
  private isForgetful = false;

  constructor(
    /** What of a message could be away: asked only while something is. */
    readonly namesOf: (message: OutboxMessage) => readonly string[],
    /**
     * It is over.
     * @param topics of the messages that were put off without a try; `null`: of any
     * @param isKnown it takes messages again; `false`: nobody asked for long, and nothing is known
     */
    readonly isBack: (away: Gone, topics: ReadonlySet<string> | null, isKnown: boolean) => void = () => undefined,
  ) {}

  get areThere(): boolean {
    return this.away.size === 0;
  }

  /**
   * @param now monotonic
   * @param random 0 ≤ x < 1
   * @returns whether that is news
   */
  failed(name: string, error: string, now: number, random = 1, topic?: string): boolean {
    const known = this.away.get(name);
    const away = known ?? this.add(name, error, now);
    if (topic !== undefined) note(away, 'allTopics', topic);
    Object.assign(away, { lastAt: now, error, putOff: away.putOff + 1 });
    // Those that failed together are tried again together, which is one of them.
    if (away.isTried || now >= away.nextTry)
      away.nextTry = now + Math.min(LONGEST_PAUSE, waitAfter(now - away.since, random));
    away.isTried = false;
    return known === undefined && !this.missing.has(name);
  }

  /**
   * A look found it missing. That puts no message off: what goes there is tried, and says so itself.
   * @returns whether that is news
   */
  foundMissing(name: string, error: string, now: number): boolean {
    const known = this.missing.get(name);
    if (known === undefined && this.missing.size >= MOST) return false;
    this.missing.set(name, { name, error, since: known?.since ?? now });
    return known === undefined && !this.away.has(name);
  }

  /** All that a look asked about, but these, is there: what was missing until now is back. */
  foundAllBut(names: ReadonlySet<string>): void {
    for (const missing of [...this.missing.values()]) {
      const { name } = missing;
      if (names.has(name)) continue;
      const away = this.away.get(name);
      if (away !== undefined) this.end(away);
      else if (this.missing.delete(name)) this.isBack({ ...missing, putOff: 0 }, NO_TOPICS, true);
    }
  }

  /** From now on its messages are put off for this reason, and one now and then is tried. */
  guard(name: string, failure: PublishFailure): void {
    const away = this.away.get(name);
    if (away !== undefined) away.failure = failure;
  }

  /** For certain: a look can tell when it is there. @returns whether that is news */
  askAbout(name: string, { topic, options }: ExpectedMessages): boolean {
    const away = this.away.get(name);
    if (away === undefined || away.missed !== undefined) return false;
    away.missed = { topic, options };
    return true;
  }

  /** What a look is to ask about, beside what is known before there is a message. */
  toAskAbout(now: number): ExpectedMessages[] {
    return [...this.away.values()].flatMap((away) => (this.isForgotten(away, now) ? [] : (away.missed ?? [])));
  }

  /**
   * Whether it goes where nothing is taken now, and not even a try is due. If one is due, this message is that.
   * @param patience milliseconds in which the result of a try is there
   */
  gate(message: OutboxMessage, now: number, patience: number): Away | undefined {
    const due: Away[] = [];
    for (const name of this.namesOf(message)) {
      const away = this.away.get(name);
      if (away?.failure === undefined) continue;
      if (now < away.nextTry) return away;
      due.push(away);
    }
    for (const away of due) Object.assign(away, { nextTry: now + patience, isTried: true });
    return undefined;
  }

  /** It was put off without a try. */
  untried(away: Away, { topic }: OutboxMessage): void {
    away.putOff += 1;
    note(away, 'topics', topic);
    note(away, 'allTopics', topic);
  }

  gotThrough(message: OutboxMessage): void {
    if (this.away.size === 0) return;
    for (const name of this.namesOf(message)) {
      const away = this.away.get(name);
      if (away !== undefined) this.end(away);
    }
    this.passed += 1;
  }

  /** The message that was the try failed of itself, which says nothing of the destination: the next one is a try at once. */
  failedOfItself(message: OutboxMessage, now: number): void {
    if (this.away.size === 0) return;
    for (const name of this.namesOf(message)) {
      const away = this.away.get(name);
      if (away?.isTried === true) Object.assign(away, { isTried: false, nextTry: now });
    }
  }

  /** Others got through since it went away: that is no outage of the transport, however many of its messages fail. */
  isProved(name: string): boolean {
    const away = this.away.get(name);
    return away !== undefined && this.passed > away.passedBefore;
  }

  /** Milliseconds to the next try: about as long again as it has been away. */
  delay(name: string, now: number): number {
    return Math.max(0, (this.away.get(name)?.nextTry ?? now) - now);
  }

  /** One whose next try is overdue, as the message that was to be it is gone: cancelled, or too old. */
  unasked(now: number): Away | undefined {
    for (const away of this.away.values()) {
      const isOverdue = away.topics?.size !== 0 && now > away.nextTry + OVERDUE && now > away.lookAgain;
      if (!isOverdue) continue;
      away.lookAgain = now + LOOK_EVERY;
      return away;
    }
    return undefined;
  }

  /** Those that are away, the longest first. Of one that nobody asked for a while nothing is known: it is forgotten without a word. */
  list(now: number): AwayDestination[] {
    for (const away of this.away.values()) if (this.isForgotten(away, now)) this.end(away, false);
    const unused = [...this.missing.values()].filter(({ name }) => !this.away.has(name));
    return [...this.away.values(), ...unused.map((missing) => ({ ...missing, putOff: 0, allTopics: NO_TOPICS }))]
      .map((away) => {
        const { name, putOff, error, allTopics } = away;
        const topics = allTopics && [...allTopics];
        return { name, awayFor: now - this.sinceOf(away), putOff, error, topics };
      })
      .sort((a, b) => b.awayFor - a.awayFor);
  }

  private isForgotten({ name, lastAt }: Away, now: number): boolean {
    return now - lastAt > FORGOTTEN && !this.missing.has(name);
  }

  private add(name: string, error: string, now: number): Away {
    if (this.away.size >= MOST) {
      const [oldest] = this.away.values();
      this.away.delete((oldest as Away).name);
      this.isForgetful = true;
    }
    const times = { since: now, lastAt: now, nextTry: now, lookAgain: now };
    const puttingOff = {
      putOff: 0,
      failure: undefined,
      missed: undefined,
      topics: new Set<string>(),
      allTopics: new Set<string>(),
      from: null,
    };
    const away: Away = {
      name,
      error,
      passedBefore: this.passed,
      ...times,
      ...puttingOff,
      isTried: false,
      isOver: false,
    };
    this.away.set(name, away);
    return away;
  }

  /** It may have been missing for long before a message went there. */
  private sinceOf({ name, since }: Pick<Away, 'name' | 'since'>): number {
    return Math.min(since, this.missing.get(name)?.since ?? since);
  }

  private end(away: Away, isKnown = true): void {
    const { name, putOff } = away;
    const gone = { name, putOff, since: this.sinceOf(away) };
    this.away.delete(name);
    this.missing.delete(name);
    away.isOver = true;
    this.isBack(gone, this.isForgetful ? null : away.topics, isKnown);
    if (this.away.size === 0) this.isForgetful = false;
  }
}

function note(away: Away, which: 'topics' | 'allTopics', topic: string): void {
  const topics = away[which];
  topics?.add(topic);
  if (topics !== null && topics.size > MOST_TOPICS) away[which] = null;
}

const NO_TOPICS: ReadonlySet<string> = new Set();
const MOST = 1_000;
const MOST_TOPICS = 100;
/** Milliseconds: longer than a message is put off for and then takes to fail again. */
const FORGOTTEN = 180_000;
/** Milliseconds between two tries at most: after that at the latest it is noticed that a destination is back. */
const LONGEST_PAUSE = 30_000;
/** Milliseconds after which a try that was due is missed, and between two looks for another message. */
const OVERDUE = 2_000;
const LOOK_EVERY = 10_000;
