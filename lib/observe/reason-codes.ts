/** What a reason of health is about, as a bounded word. */
export const REASON_CODES = [
  'database_silent',
  'database_read_only',
  'database_copied',
  'database_refuses',
  'reads_failing',
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
  'relay_silent',
  'dead_letters',
  'failing_often',
  'keys_blocked',
  'lease_rows_missing',
  'rows_hidden',
  'standing_still',
] as const;

/** The word of one reason of `health()`; more may be added. */
export type ReasonCode = (typeof REASON_CODES)[number];

/** Why something is not as it should be: made where it is found out, and told as it is by health, metrics, probes and the command line. */
export interface OutboxReason {
  /** For programs. */
  readonly code: ReasonCode;
  /** For people: one sentence. */
  readonly text: string;
  /** The name of the transport that it is about. */
  readonly transport?: string;
  /** `exchange "shop"`, `queue "orders"`, `topic "orders"`. */
  readonly destination?: string;
  /** To the second, by the clock of whoever found it out. */
  readonly since?: Date;
  /** Host and pid of another process whose relay says it. */
  readonly relay?: string;
}

export const reason = (
  code: ReasonCode,
  text: string,
  about: Omit<OutboxReason, 'code' | 'text'> = {},
): OutboxReason => ({
  code,
  text,
  ...about,
});

/** `now`: milliseconds since the epoch. In whole seconds, so that it stays the same from one look to the next. */
export const ago = (now: number, ms: number): Date => new Date(Math.round((now - ms) / 1_000) * 1_000);
