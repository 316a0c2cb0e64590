import type { OutboxHealth } from '../observe/health.js';
import type { ReasonCode } from '../observe/reason-codes.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';

/** What other questions are about. */
const ASKED_APART: ReadonlySet<ReasonCode> = new Set<ReasonCode>([
  'database_silent',
  'database_read_only',
  'no_relay',
  'lease_rows_missing',
  'rows_hidden',
  'snapshot_held',
]);
const NOTHING_GOES_OUT: ReadonlySet<ReasonCode> = new Set<ReasonCode>([
  'database_copied',
  'lease_renewal_failing',
  'reads_failing',
  'relay_stopped',
]);
const FIXES: Readonly<Partial<Record<ReasonCode, string>>> = {
  dead_letters:
    'OutboxAdmin.failures() says why. Repair the cause, then outbox.requeue({ … }), or outbox.discard({ … }).',
  failing_often: 'OutboxAdmin.failures() says why. Repair the cause: they are tried again by themselves.',
  keys_blocked:
    "OutboxAdmin.find({ state: ['dead', 'waiting'] }) shows the messages that block. Repair them. Past a dead one outbox.release(key) lets the key go on.",
  transport_down:
    'Bring the broker back, or let it accept the login: the relay then continues by itself. If address or login in the options are wrong, correct them and restart the relay.',
  relay_silent: 'If the process has ended, start a relay. Another one takes over at the end of its leases.',
  transport_blocked:
    'End the alarm of the broker (memory, disk), or raise its quota: the relay then continues by itself.',
  paused: 'Once the reason is gone: OutboxAdmin.resume({ transport }), with the topic and key that the sentence names.',
  destination_missing: 'Make the destination, or correct the name. The sentence has the remedy.',
  destination_away: 'Repair the destination: the sentence has the error of the broker.',
  standing_still:
    'OutboxAdmin.explain(id) says what holds the message. When its owner is gone: outbox.breakLeases({ owner }).',
  database_copied: 'Decide what becomes of the messages: the page Errors says how (DATABASE_COPIED).',
  relay_stopped: 'Read the last lines of the relay in the log, and start the process again.',
  lease_renewal_slow: 'Raise lease, or lower publishTimeout.',
};

/** Pure: each reason of health that no other question is about. */
export function judgeHealth({ status, reasons }: OutboxHealth): Finding[] {
  const told = reasons.filter(({ code }) => !ASKED_APART.has(code));
  if (told.length === 0) return [isOk('health', 'Health has no further reason.', { status })];
  return told.map(({ code, text, ...about }) =>
    found(
      'health',
      NOTHING_GOES_OUT.has(code) ? 'error' : 'warning',
      { text, evidence: { status, reason: code, ...about } },
      NOTHING_GOES_OUT.has(code) ? 'Nothing goes out.' : 'Messages are safe, and some go out later or not at all.',
      FIXES[code] ?? 'The page Operations says what to do, by the words of this reason.',
    ),
  );
}
