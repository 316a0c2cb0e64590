import { randomFillSync } from 'node:crypto';

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
/** Random bytes are drawn in blocks: one `randomFillSync` per 512 ids instead of one each. */
const POOL_BYTES = 4_096;
const MAX_COUNTER = 0xfff;

export interface UuidV7Sources {
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
  readonly fill?: (bytes: Uint8Array) => void;
}

/**
 * A generator of RFC 9562 UUIDv7, strictly increasing within itself: 48 bits of milliseconds, a 12-bit counter that
 * starts at random below 2048, 62 random bits. A clock that goes back is held at the last time; a counter that is used
 * up borrows from the next millisecond. It never waits.
 */
export function createUuidV7({ now = Date.now, fill = randomFillSync }: UuidV7Sources = {}): () => string {
  const pool = new Uint8Array(POOL_BYTES);
  let used = POOL_BYTES;
  let time = 0;
  let counter = 0;

  const draw = (bytes: number): number => {
    if (used + bytes > POOL_BYTES) {
      fill(pool);
      used = 0;
    }
    used += bytes;
    return used - bytes;
  };
  const startCounter = (): number => {
    const at = draw(2);
    return (((pool[at] as number) << 8) | (pool[at + 1] as number)) & 0x7ff;
  };

  return () => {
    const clock = now();
    if (clock > time) {
      time = clock;
      counter = startCounter();
    } else if (++counter > MAX_COUNTER) {
      time += 1;
      counter = startCounter();
    }
    return format(time, counter, pool, draw(8));
  };
}

function format(time: number, counter: number, random: Uint8Array, at: number): string {
  const high = Math.floor(time / 0x1_0000_0000);
  const low = time >>> 0;
  return (
    `${hex(high >>> 8)}${hex(high)}${hex(low >>> 24)}${hex(low >>> 16)}-${hex(low >>> 8)}${hex(low)}` +
    `-${hex(0x70 | (counter >>> 8))}${hex(counter)}` +
    `-${hex(0x80 | ((random[at] as number) & 0x3f))}${hex(random[at + 1] as number)}` +
    `-${hex(random[at + 2] as number)}${hex(random[at + 3] as number)}${hex(random[at + 4] as number)}` +
    `${hex(random[at + 5] as number)}${hex(random[at + 6] as number)}${hex(random[at + 7] as number)}`
  );
}

function hex(byte: number): string {
  return HEX[byte & 0xff] as string;
}

/** The default generator of message ids; one per process, so that ids increase across outboxes. */
export const uuidV7: () => string = createUuidV7();

/** What each hexadecimal digit is worth, by its code. To parse two slices of an id takes 2.5 times as long. */
const DIGITS = new Float64Array(128).fill(Number.NaN);
for (const digits of ['0123456789abcdef', '0123456789ABCDEF'])
  for (let value = 0; value < digits.length; value++) DIGITS[digits.charCodeAt(value)] = value;
const HYPHEN_AT = 8;
const TIME_ENDS_AT = 13;

/** Milliseconds since the epoch at which the id was made; `undefined`: it is of another version, and does not say. */
export function timeOfUuidV7(id: string): number | undefined {
  if (id[14] !== '7') return undefined;
  let time = 0;
  for (let at = 0; at < TIME_ENDS_AT; at++)
    if (at !== HYPHEN_AT) time = time * 16 + (DIGITS[id.charCodeAt(at)] ?? Number.NaN);
  return Number.isNaN(time) ? undefined : time;
}

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The id in lower case, or `undefined` when it is no RFC 9562 version 7 UUID. */
export function parseUuidV7(id: unknown): string | undefined {
  return parse(UUID_V7, id);
}
/** Of any version: rows of other writers may have one. */
export function parseUuid(id: unknown): string | undefined {
  return parse(UUID, id);
}

function parse(pattern: RegExp, id: unknown): string | undefined {
  if (typeof id !== 'string' || id.length !== 36) return undefined;
  const lower = id.toLowerCase();
  return pattern.test(lower) ? lower : undefined;
}
