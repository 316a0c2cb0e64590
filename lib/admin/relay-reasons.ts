import { counted } from '../observe/plural.js';
import { stopOf } from '../observe/seen-relays.js';
import { pauseText } from '../observe/paused.js';
import { covers, isWhole, type NamedPause } from '../store/pauses/pause-store.js';
import { printable } from '../observe/redact/printable.js';
import type { RowLease, RowSurroundings, StoredRow } from '../store/inspect-store.js';
import { at, sayOf, type ExplainSources, type ExplanationReason, type Say } from './explanation-reason.js';
import { nameOf } from './found-message.js';

/** It is a message's turn, or will be: who publishes it then. */
export function ofRelays(row: StoredRow, around: RowSurroundings, sources: ExplainSources): ExplanationReason {
  const { names, usesLeases } = sources;
  const { lease } = around;
  // Behind a message that an operator holds back it waits as long as that.
  const pause =
    pauseOf(row, sources.pauses) ?? (around.blocker === null ? undefined : pauseOf(around.blocker, sources.pauses));
  if (pause !== undefined) return ofPause(pause);
  if (usesLeases && lease?.isLive === true) return ofOwner(row, around, lease, sources);
  const transport = nameOf(row.transport, names);
  const say = sayOf(transport);
  const live = sources.relays.filter(({ state }) => state === 'live');
  const mine = live.filter(({ transports }) => transports.includes(transport));
  const relays = mine.length;
  const count = { liveRelays: live.length, relaysOfTransport: relays };
  if (relays === 0) {
    const alive = counted(live.length, 'relay is', 'relays are');
    return say('no-relay', `No live relay publishes to '${transport}'; ${alive} alive.`, count);
  }
  const stops = mine.flatMap((relay) => stopOf(relay, transport) ?? []);
  if (stops.length === relays)
    return say(
      'circuit-open',
      `${counted(relays, 'live relay has', 'live relays have')} '${transport}'. ${stops[0]?.text}`,
      count,
    );
  if (usesLeases) return noOwner(row, lease, count, { transport, say });
  const text = `It is ready: ${counted(relays, 'live relay publishes', 'live relays publish')} to '${transport}'.`;
  return say('ready', text, { ...count, createdAt: row.createdAt });
}

/** The pause of the whole transport before that of a part: no part of it is looked at meanwhile. */
function pauseOf(row: StoredRow, pauses: readonly NamedPause[]): NamedPause | undefined {
  const found = pauses.filter((pause) => covers(pause, row));
  return found.find(isWhole) ?? found[0];
}

function ofPause(pause: NamedPause): ExplanationReason {
  const { name, since, actor, reason } = pause;
  return sayOf(name)('paused', pauseText(pause), { since, by: printable(actor), reason: printable(reason) });
}

function noOwner(
  { bucket }: StoredRow,
  lease: RowLease | null,
  count: ExplanationReason['facts'],
  { transport, say }: { readonly transport: string; readonly say: Say },
): ExplanationReason {
  const subject = `Bucket ${bucket} of '${transport}'`;
  if (lease === null)
    return say('no-owner', `${subject} has no lease row, or it is hidden from this login.`, { bucket, ...count });
  const { owner: lastOwner, expiresAt } = lease;
  const before = lastOwner === null ? '' : `: the lease of ${lastOwner} ran out at ${at(expiresAt)}`;
  const facts = { bucket, lastOwner, expiredAt: lastOwner === null ? null : expiresAt, ...count };
  return say('no-owner', `${subject} has no owner${before}.`, facts);
}

function ofOwner(
  { transport: number, bucket, state, createdAt }: StoredRow,
  { ahead }: RowSurroundings,
  { owner, expiresAt, trial }: RowLease,
  { names, relays }: ExplainSources,
): ExplanationReason {
  const transport = nameOf(number, names);
  const say = sayOf(transport);
  const subject = `Bucket ${bucket} of '${transport}' is leased`;
  const facts = { bucket, owner, leaseUntil: expiresAt };
  const relay = relays.find((one) => one.owner === owner && one.state !== 'gone');
  const until = `${subject} until ${at(expiresAt)} by instance ${owner}`;
  if (relay === undefined) return say('owner-gone', `${until}, which has gone silent.`, facts);
  const { place, state: isThere, heardAt, transports } = relay;
  if (isThere === 'silent') {
    const text = `${until} (${place}), which last reported at ${at(heardAt)}.`;
    return say('owner-gone', text, { ...facts, place, heardAt });
  }
  const by = `instance ${owner} (${place})`;
  const stop = stopOf(relay, transport);
  if (stop !== undefined || !transports.includes(transport)) {
    const reason = stop?.text ?? 'its circuit is open.';
    const text = `${subject} by ${by}, which publishes nothing to '${transport}' now: ${reason}`;
    return say('circuit-open', text, { ...facts, place, since: stop?.since ?? null });
  }
  const before = state === 'ready' ? `, with ${counted(ahead, 'ready message')} before it in its bucket` : '';
  const alone = trial === null ? {} : { trial };
  const text = `It is its turn${before}: ${by} publishes bucket ${bucket} to '${transport}'.`;
  return say('ready', text, { ...facts, place, ahead, ...alone, createdAt });
}
