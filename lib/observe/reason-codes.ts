/** What a reason of health is about, for who wants a bounded word in place of a text. */
export const REASON_CODES = [
  'database_silent',
  'database_read_only',
  'database_copied',
  'database_refuses',
  'lease_renewal_failing',
  'lease_renewal_slow',
  'relay_stopped',
  'counts_late',
  'process_stood_still',
  'snapshot_held',
  'transport_down',
  'transport_blocked',
  'paused',
  'trial',
  'destination_missing',
  'destination_away',
  'no_relay',
  'dead_letters',
  'failing_often',
  'keys_blocked',
  'lease_rows_missing',
  'rows_hidden',
  'standing_still',
] as const;

/** The word of one reason of `health()`; more may be added. */
export type ReasonCode = (typeof REASON_CODES)[number];

/** One reason of `health()`, as a word and as a sentence. */
export interface Reason {
  readonly code: ReasonCode;
  readonly text: string;
}

export const reason = (code: ReasonCode, text: string): Reason => ({ code, text });
