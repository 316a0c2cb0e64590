import { durationText } from '../time/duration.js';
import { ago, reason, type OutboxReason } from './reason-codes.js';
import type { Stand, Standstill } from './standing.js';

/** What is known beside what stands: who reads it here, and what health says of it already. */
export interface Around {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Milliseconds. */
  readonly lease: number;
  /** Milliseconds after which what this process should have leased, and has not, is no passing state. */
  readonly soon: number;
  /** There is a reason already why nothing goes out. */
  readonly isSaid: boolean;
  /** What all wait for (`ordering: 'global'`), or `null`. */
  readonly holds: string | null;
  /** Of the relay of this process: `undefined` without one, or without leases. */
  readonly owner: string | undefined;
  readonly leased: ReadonlySet<number> | undefined;
  /** Whether there is none by bucket (`coordination: 'rowLock'`). */
  readonly unleased: boolean;
  readonly waitsFor: (seq: string) => boolean;
}

/** Ready messages that do not get ahead, where nothing else explains it. One reason at most. */
export function standstill({ stands, standsFor }: Standstill, around: Around): OutboxReason[] {
  const { lease, leased, isSaid, unleased, name } = around;
  const first = longest(stands);
  if (first === undefined || isSaid) return [];
  const isElsewhere = leased !== undefined && !unleased && stands.every(({ bucket }) => !leased.has(bucket));
  if (standsFor >= 2 * lease || (isElsewhere && standsFor >= around.soon)) {
    const all = `Messages for '${name}' are ready, and none has moved for ${text(standsFor)}`;
    return [still(`${all}: ${what(first)}; ${why(first, around)}.`, standsFor, around)];
  }
  const stuck = stands.filter((stand) => stand.standsFor >= 2 * lease && !isTaken(stand, around));
  const one = unleased ? undefined : longest(stuck);
  if (one === undefined) return [];
  const more = stuck.length > 1 ? `, as those of ${stuck.length - 1} more buckets do` : '';
  const it = `A message for '${name}' has not moved for ${text(one.standsFor)} while others go out${more}`;
  return [still(`${it}: ${what(one)}; ${why(one, around)}.`, one.standsFor, around)];
}

const still = (says: string, standsFor: number, { name, now }: Around): OutboxReason =>
  reason('standing_still', says, { transport: name, since: ago(now, standsFor) });

const longest = (stands: readonly Stand[]): Stand | undefined =>
  stands.reduce<Stand | undefined>((a, b) => (a === undefined || b.standsFor > a.standsFor ? b : a), undefined);

/** Read and waiting for its turn, or in the hands of another instance that lives: slow, and not stuck, as others go out. */
function isTaken({ bucket, seq, lease }: Stand, { leased, waitsFor, owner }: Around): boolean {
  if (leased?.has(bucket) === true) return waitsFor(seq);
  return lease !== null && lease.alive && lease.owner !== owner;
}

const what = ({ id, bucket, age }: Stand): string =>
  `${id} is the first of bucket ${bucket}${age === null ? '' : `, ready for ${text(age)}`}`;

function why({ bucket, lease }: Stand, { leased, holds, unleased, owner }: Around): string {
  if (holds !== null) return `all wait for ${holds}`;
  if (unleased) return 'no relay locks it';
  if (leased?.has(bucket) === true) return 'this process has leased the bucket';
  if (lease === null) return 'nobody has leased the bucket';
  if (lease.owner === owner) return 'this process has leased the bucket, and does not read it';
  const until = `for ${text(lease.remaining)} more`;
  return lease.alive
    ? `instance ${lease.owner} has leased the bucket, ${until}`
    : `instance ${lease.owner}, which has gone silent, has leased the bucket, ${until} (breakLeases frees it)`;
}

/** In whole seconds. */
const text = (ms: number): string => String(durationText(Math.max(1, Math.round(ms / 1_000)) * 1_000));
