import { counted } from '../observe/plural.js';
import type { RowLease, RowSurroundings, StoredRow } from '../store/inspect-store.js';
import {
  at,
  because,
  sayOf,
  shown,
  type ExplainSources,
  type ExplanationReason,
  type Say,
} from './explanation-reason.js';
import { nameOf } from './found-message.js';
import { ofRelays } from './relay-reasons.js';

/** Pure: what the database has about one message in one transport, as reasons. */
export function reasonsOf(row: StoredRow, around: RowSurroundings, sources: ExplainSources): ExplanationReason[] {
  const itself = ofItself(row, around, nameOf(row.transport, sources.names));
  if (itself === undefined) return [ofRelays(row, around, sources)];
  const isHeld = itself.code === 'scheduled' || itself.code === 'waiting' || itself.code === 'blocked';
  const next = isHeld ? ofRelays(row, around, sources) : undefined;
  if (next === undefined || next.code === 'ready') return [itself];
  // It was put off without an attempt, for as long as the pause lasts.
  return itself.code === 'waiting' && next.code === 'paused' && row.attempts === 0 ? [next] : [itself, next];
}

/** What holds a message by itself, or through its key. `undefined`: it is its turn. */
function ofItself(row: StoredRow, around: RowSurroundings, transport: string): ExplanationReason | undefined {
  const say = sayOf(transport);
  const { now, lease, blocker } = around;
  const { state, dueAt, publishedAt, attempts } = row;
  if (state === 'published')
    return say('published', `It was published to '${transport}' at ${at(publishedAt)}.`, { publishedAt });
  if (lease !== null && isSending(row, lease)) {
    const facts = { owner: lease.owner, leaseUntil: lease.expiresAt, attempts };
    return say('sending', `It is being sent to '${transport}' now, by instance ${lease.owner}.`, facts);
  }
  if (state === 'dead') return dead(row, transport, say);
  const isLater = dueAt !== null && dueAt > now;
  if (state === 'scheduled' && isLater) {
    const text = `It is scheduled for ${at(dueAt)}, and not published to '${transport}' before that.`;
    return say('scheduled', text, { dueAt });
  }
  if (blocker !== null) return behind(blocker, say);
  return state === 'waiting' && isLater ? waiting(row, transport, say) : undefined;
}

const isSending = ({ sendingEpoch }: StoredRow, { isLive, epoch }: RowLease): boolean =>
  isLive && sendingEpoch !== null && sendingEpoch === epoch;

function dead({ diedAt, attempts, lastError }: StoredRow, transport: string, say: Say): ExplanationReason {
  const after = `after ${counted(attempts, 'attempt')}${because(lastError)}`;
  const facts = { diedAt, attempts, lastError: shown(lastError) };
  return say('dead', `It is dead for '${transport}' since ${at(diedAt)}, ${after}.`, facts);
}

function waiting(row: StoredRow, transport: string, say: Say): ExplanationReason {
  const { dueAt, attempts, lastAttemptAt, lastError } = row;
  const after = `after ${counted(attempts, 'attempt')} to '${transport}'${because(lastError)}`;
  const facts = { dueAt, attempts, lastAttemptAt, lastError: shown(lastError) };
  return say('waiting', `It ${waitsUntil(dueAt, attempts)}, ${after}.`, facts);
}

/** What was put off without an attempt is tried as soon as its destination is back. */
const waitsUntil = (dueAt: Date | null, attempts: number): string =>
  `waits for its next attempt at ${at(dueAt)}${attempts === 0 ? ' at the latest' : ''}`;

function behind({ id, state, dueAt, diedAt, lastError, attempts }: StoredRow, say: Say): ExplanationReason {
  const held = state === 'waiting' ? waitsUntil(dueAt, attempts) : `is ${state}`;
  const what = state === 'dead' ? `is dead since ${at(diedAt)}` : held;
  return say('blocked', `It is blocked behind message ${id} of its key, which ${what}${because(lastError)}.`, {
    behind: id,
    behindState: state,
    behindDueAt: dueAt,
    behindDiedAt: diedAt,
    behindAttempts: attempts,
    behindLastError: shown(lastError),
  });
}

/** Nothing of the message was found. */
export function notThere(complete: boolean, openTransactions: number | undefined): ExplanationReason {
  const say = sayOf(null);
  if (!complete)
    return say('not-searched', 'It was not found, and the tables are too long to be looked through in time.', {});
  const open =
    openTransactions === undefined
      ? 'or its transaction is still open'
      : openTransactions === 0
        ? 'and no transaction with writes is open'
        : `or it is of one of the ${openTransactions} transactions with writes that are open`;
  const text = `Nothing of it is here: it was published and deleted, cancelled, discarded or never committed, ${open}.`;
  return say('not-found', text, { openTransactions: openTransactions ?? null });
}
