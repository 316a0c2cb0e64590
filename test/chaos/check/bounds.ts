import type { FaultSpan } from './faults.js';

/** Of the relays of a run, as its `meta` line has them; milliseconds. */
export interface Timing {
  readonly lease: number;
  readonly pollInterval: number;
}

/**
 * Microseconds beyond what the design promises, which knows no queue for a CPU: the fault is written down before the signal is
 * sent, and a peer's look is a renewal, a heartbeat and an acquisition for each transport, on a database that works for
 * everybody. Of 800 takeovers in four runs of half an hour on two full cores, also those beside other faults, one in a hundred took
 * 0.6 s longer than promised (11.6, 11.2, 11.1 and 10.8 s).
 */
const GRACE = 2_000_000;

/**
 * The last renewal may have been in the moment of the death, so that the lease lasts; who has peers looks every two polls.
 * @returns microseconds from a death until every bucket has an owner again
 */
export function takeoverWithin({ lease, pollInterval }: Timing): number {
  return (lease + 2 * pollInterval) * 1_000 + GRACE;
}

/** For an attempt to connect or to publish that began while the broker was away. */
const ATTEMPT = 5_000_000;
const FIRST_DELAY = 500_000;
const LONGEST_DELAY = 30_000_000;

/**
 * How long after a fault a circuit may be open. A broker's: the delay between probes doubles, up to a cap, and each is at least half of
 * what it may be; so that the last one is no more than twice as long as all that was before it, which the last attempt ends.
 * @param out microseconds that nobody was reached
 */
export function circuitWithin({ kind }: FaultSpan, out: number): number {
  if (!/^(broker|exchange)/.test(kind)) return 0;
  return ATTEMPT + Math.min(LONGEST_DELAY, 2 * (out + ATTEMPT) + FIRST_DELAY);
}
