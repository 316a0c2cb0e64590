/** What each sentence of `health().reasons` is about, for who wants a bounded word in place of a text. */
export const REASON_CODES = [
  ['database_silent', /^The database does not answer|^This outbox is closed/],
  ['database_read_only', /^The database is read-only/],
  ['database_copied', /^The messages in .* came from another database/],
  ['database_refuses', /^(Reading|Writing down) .* has failed for /],
  ['lease_renewal_failing', /^Renewing the leases in the database (.* )?has failed for /],
  ['lease_renewal_slow', /^Renewing the leases took /],
  ['relay_stopped', /^The relay is not running/],
  ['counts_late', /^The database has not counted the messages within /],
  ['process_stood_still', /^The process stood still for /],
  ['snapshot_held', /^(\S+ has kept dead rows of |Reading .* is slow, perhaps for rows that are gone)/],
  ['transport_down', /^Transport '.*' is down/],
  ['transport_blocked', /^Transport '.*' asks to wait/],
  ['destination_missing', /^Transport '.*': .* has been missing for /],
  ['destination_away', /^Transport '.*': .* takes? nothing/],
  ['no_relay', /^\d+ (or more )?messages? for '.*', which no live relay publishes/],
  ['dead_letters', /^\d+ (or more )?dead messages? for '/],
  ['failing_often', /^\d+ messages? for '.*' (has|have) failed /],
  ['keys_blocked', /^\d+ (or more )?keys? of '.*' (is|are) blocked /],
  ['lease_rows_missing', /^\d+ lease rows? of '/],
  ['rows_hidden', /^Row security hides messages for '/],
  ['standing_still', /^(Messages|A message) for '.*' .*moved for /],
] as const;

export type ReasonCode = (typeof REASON_CODES)[number][0] | 'other';

/** @param reason a sentence of `health().reasons` */
export function reasonCode(reason: string): ReasonCode {
  return REASON_CODES.find(([, pattern]) => pattern.test(reason))?.[0] ?? 'other';
}
