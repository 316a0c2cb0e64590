/** Of a bucket, when this process published of it first and last. */
export type Span = readonly [bucket: number, from: number, to: number];

/** What one relay of a fleet published so far, and since the last word from when to when of each bucket. */
export interface FleetWord {
  readonly messages: number;
  readonly work: Work;
  readonly spans: readonly Span[];
}

/** What that took, since the process started. */
export interface Work {
  fetches: number;
  /** Of these, without a row. */
  empty: number;
  settles: number;
  /** CPU microseconds of this process. */
  cpu: number;
}

/** Milliseconds between two words. */
export const TELL_EVERY = 50;
