/** What the writers write: who gets a message, how large it is, what becomes of it. Shared with the consumer, which checks the bytes. */

/** Small, seeded, good enough (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const KEYS = 1_000;
const HOT_KEYS = 5;
/**
 * Of all messages, those of the five hot keys; the others follow a zipf distribution. A key's messages go one after the other:
 * one that gets more than the confirms of a slow broker let through would be late for ever, and nothing would be wrong.
 */
const HOT_SHARE = 0.05;
const EXPONENT = 0.5;
/** One in so many of the other keys has messages for a topic that comes and goes. */
const SEASONAL_KEYS = 16;

/**
 * Whether a message goes there.
 * @param oneQueue whether its order with the other messages of its key is seen: then they go by turns to both topics; else all go there
 */
export function isSeasonal({ uid, key }: PlannedMessage, oneQueue: boolean): boolean {
  return key >= HOT_KEYS && key % SEASONAL_KEYS === 7 && (!oneQueue || uid % 2 === 0);
}

/** Index of a key, 0 is the hottest; -1: a message without a key. */
export class KeyChoice {
  private readonly cumulated: Float64Array;

  constructor(private readonly random: () => number) {
    this.cumulated = new Float64Array(KEYS - HOT_KEYS);
    let sum = 0;
    for (let i = 0; i < this.cumulated.length; i += 1) this.cumulated[i] = sum += (i + 1) ** -EXPONENT;
  }

  next(): number {
    const { random, cumulated } = this;
    if (random() < 0.02) return -1;
    if (random() < HOT_SHARE) return Math.floor(random() * HOT_KEYS);
    const wanted = random() * (cumulated.at(-1) as number);
    let [low, high] = [0, cumulated.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((cumulated[middle] as number) < wanted) low = middle + 1;
      else high = middle;
    }
    return HOT_KEYS + low;
  }
}

/**
 * - `plain`: to one or both transports.
 * - `later`: with a delay; outside the order of its key until it is due.
 * - `poison`: no broker ever takes it; it dies and its key goes on (`onDead: 'skip'`).
 * - `plug`: the same, but it blocks its key until an operator releases it (`onDead: 'block'`).
 */
export const KINDS = ['plain', 'later', 'poison', 'plug'] as const;
export type Kind = (typeof KINDS)[number];
const SHARES: Readonly<Record<Exclude<Kind, 'plain'>, number>> = { later: 0.005, poison: 0.0007, plug: 0.0003 };

export function chooseKind(random: () => number): Kind {
  let point = random();
  for (const kind of ['later', 'poison', 'plug'] as const) {
    point -= SHARES[kind];
    if (point < 0) return kind;
  }
  return 'plain';
}

export interface PlannedMessage {
  readonly uid: number;
  readonly key: number;
  /** Bit 0: the first transport, bit 1: the second. */
  readonly transports: number;
  readonly kind: Kind;
}
const MAX_ROWS = 10;
const ROW_BITS = 4;
const TRANSACTION_BITS = 20;

/** Below 2^53 for 500 million lives of writers, each with a million transactions. */
export function uidOf(run: number, transaction: number, index: number): number {
  return (run * 2 ** TRANSACTION_BITS + transaction) * 2 ** ROW_BITS + index;
}

export function planTransaction(
  run: number,
  transaction: number,
  keys: KeyChoice,
  random: () => number,
): PlannedMessage[] {
  return Array.from({ length: 1 + Math.floor(random() * MAX_ROWS) }, (_, index) => {
    const kind = chooseKind(random);
    const where = random();
    // A plug is an event of a class, which names its transport.
    const transports = kind === 'plug' || where < 0.5 ? 1 : where < 0.95 ? 2 : 3;
    return { uid: uidOf(run, transaction, index), key: keys.next(), transports, kind };
  });
}

const SMALLEST = 100;
const LARGEST = 256 * 1024;

/** Bytes of a message, known to whoever knows its uid. Most are small: what is tested is not the network. */
export function sizeOf(uid: number): number {
  const chance = randomFrom(uid % 2 ** 32)();
  if (chance > 0.9995) return LARGEST - Math.floor((1 - chance) * 2_000 * LARGEST * 0.9);
  if (chance > 0.97) return 2_000 + Math.floor((chance - 0.97) * 30 * 6_000);
  return SMALLEST + Math.floor(chance * 200);
}

/** @param secret what must be seen nowhere else; shorter than the smallest message leaves room for */
export function payloadOf(uid: number, secret: string): string {
  const head = `{"uid":${uid},"pad":"${secret}`;
  return `${head}${'x'.repeat(sizeOf(uid) - head.length - 2)}"}`;
}

const HEAD = '{"uid":';

/** Of a message whose payload begins so; -1: it is none of ours. */
export function uidAt(head: string): number {
  return Number(/^\{"uid":(\d+),/.exec(head)?.[1] ?? -1);
}

/** `undefined`: these are not the bytes that were enqueued. */
export function uidIn(payload: Buffer): number | undefined {
  const end = payload.indexOf(0x2c);
  const uid = Number(payload.toString('latin1', HEAD.length, Math.max(HEAD.length, end)));
  if (end < 0 || !Number.isSafeInteger(uid)) return undefined;
  if (payload.length !== sizeOf(uid) || payload.toString('latin1', 0, HEAD.length) !== HEAD) return undefined;
  return payload.at(-2) === 0x22 && payload.at(-1) === 0x7d ? uid : undefined;
}
