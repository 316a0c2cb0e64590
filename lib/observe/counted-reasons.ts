import { counted } from './plural.js';
import { OFTEN, type BoundedCount } from '../store/admin-store.js';
import { reason, type OutboxReason } from './reason-codes.js';
import type { SeenRelay } from './seen-relays.js';
import type { OutboxTransportStats } from './stats.js';

/** What is known beside the counts of a transport. */
export interface Beside {
  readonly relays: readonly SeenRelay[];
  /** Somebody who lives has the transport. */
  readonly isPublished: boolean;
  /** An operator holds back some of its topics or keys. */
  readonly hasPaused: boolean;
}

/** What the counts of a transport say that somebody should look at. */
export function countedReasons(name: string, stats: OutboxTransportStats, beside: Beside): OutboxReason[] {
  const all = [
    ...unpublished(name, stats, beside),
    ...(stats.dead > 0
      ? [
          reason(
            'dead_letters',
            `${atLeast(stats, 'dead', 'dead message')} for '${name}' ${stats.dead === 1 ? 'waits' : 'wait'} for requeue or discard.`,
          ),
        ]
      : []),
    ...oftenFailed(name, stats),
    ...heldKeys(name, stats, heldBy(beside.hasPaused)),
    ...unseen(name, stats),
  ];
  return all.map((one) => ({ ...one, transport: name }));
}

/** What keys wait for. */
export const heldBy = (hasPaused: boolean): string =>
  hasPaused ? 'a message that failed or is paused' : 'a failed message';

/** Messages of which nobody knows a relay that publishes them, or of which some wait until the leases of a silent one run out. */
function unpublished(name: string, stats: OutboxTransportStats, { relays, isPublished }: Beside): OutboxReason[] {
  const { ready, scheduled, waiting: retried, blocked, readyIsExact } = stats;
  const waiting = ready + scheduled + retried + blocked;
  const mine = relays.filter(({ transports }) => transports.includes(name));
  const silent = mine.filter(({ state }) => state === 'silent');
  if (waiting === 0 || (isPublished && (silent.length === 0 || ready === 0))) return [];
  const isCut = !readyIsExact || (['scheduled', 'waiting', 'blocked'] as const).some((count) => cut(stats, count));
  const count = isCut ? `${waiting} or more messages` : counted(waiting, 'message');
  const last = lastOf(silent.length > 0 ? silent : mine.filter(({ state }) => state === 'gone'));
  const heard = last && `${last.place} last reported at ${last.heardAt.toISOString()}`;
  const since = last && { since: last.heardAt };
  if (silent.length === 0) {
    const told = heard === undefined ? '' : `: ${heard}`;
    return [
      reason(
        'no_relay',
        `${count} for '${name}', which no live relay publishes${told}.${stats.configured ? '' : LEFT}`,
        since,
      ),
    ];
  }
  const some = isPublished
    ? `Some of ${count} for '${name}' may wait`
    : `${count} for '${name}' ${waiting === 1 ? 'waits' : 'wait'}`;
  return [reason('relay_silent', `${some} for a relay that is silent: ${heard}.`, since)];
}

const lastOf = (relays: readonly SeenRelay[]): SeenRelay | undefined =>
  relays.reduce<SeenRelay | undefined>((a, b) => (a === undefined || b.heardAt > a.heardAt ? b : a), undefined);

const cut = ({ atLeast = [] }: OutboxTransportStats, count: BoundedCount): boolean => atLeast.includes(count);
const atLeast = (stats: OutboxTransportStats, count: BoundedCount, one: string, found = stats[count]): string =>
  cut(stats, count) ? `${found} or more ${one}s` : counted(found, one);

/** What is tried again and again: without a limit of attempts nothing else would tell of it. */
function oftenFailed(name: string, stats: OutboxTransportStats): OutboxReason[] {
  const { failingOften = 0, mostAttempts: most = 0 } = stats;
  if (failingOften === 0) return [];
  const count = atLeast(stats, 'waiting', 'message', failingOften); // as many of those that were looked at
  const failed =
    count === '1 message' ? `has failed ${most} times` : `have failed ${OFTEN} times or more, the most ${most} times`;
  return [reason('failing_often', `${count} for '${name}' ${failed}: \`last_error\` says why.`)];
}

/** Whether anything lies there nobody knows: it is not published, and not counted. */
function unseen(name: string, { missingLeases = 0, rowsHidden = false }: OutboxTransportStats): OutboxReason[] {
  return [
    ...(missingLeases > 0
      ? [
          reason(
            'lease_rows_missing',
            `${counted(missingLeases, 'lease row')} of '${name}' ${missingLeases === 1 ? 'is' : 'are'} missing, or hidden from this login: nobody publishes what lies in ${missingLeases === 1 ? 'its bucket' : 'their buckets'}. The start of a relay makes what is missing.`,
          ),
        ]
      : []),
    ...(rowsHidden
      ? [reason('rows_hidden', `Row security hides messages for '${name}' from this login: they are not counted.`)]
      : []),
  ];
}

/** A transport that a newer version, or another service, does not have any more. */
const LEFT =
  ' This process does not have it: give it back to the options of a relay, or remove its messages with cancel and discard.';

/** A retry that holds back nobody is no news; a key behind a dead message waits for an operator, also without messages. */
function heldKeys(name: string, stats: OutboxTransportStats, what: string): OutboxReason[] {
  const { blockedKeys, blocked, dead } = stats;
  if (blocked === 0 && (blockedKeys === 0 || dead === 0)) return [];
  const waiting = `with ${atLeast(stats, 'blocked', 'message')} behind it: until it is ${dead > 0 ? 'published, requeued, discarded or released' : 'published or cancelled'}`;
  const keys = `${atLeast(stats, 'blockedKeys', 'key')} of '${name}' ${blockedKeys === 1 ? 'is' : 'are'}`;
  return [reason('keys_blocked', `${keys} blocked by ${what}, ${waiting}.`)];
}
