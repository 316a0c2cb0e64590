import type { LiveInstance } from '../store/lease-store.js';
import { toldLease, toldPlace, toldTroubles } from '../store/instance-info.js';
import { REASON_CODES, type OutboxReason, type ReasonCode } from './reason-codes.js';
import { printable } from './redact/printable.js';

/** A relay as its row tells of it: the same in every process. */
export interface SeenRelay {
  readonly owner: string;
  /** Host and pid. */
  readonly place: string;
  /** Milliseconds; `undefined`: it does not tell. */
  readonly lease: number | undefined;
  /** `silent`: two heartbeats are missing. `gone`: its row has run out. */
  readonly state: 'live' | 'silent' | 'gone';
  /** By the database's clock. */
  readonly heardAt: Date;
  /** Names of those that it has, whether their brokers are there or not. */
  readonly transports: readonly string[];
  /** Why it does not publish all that it should. */
  readonly troubles: readonly OutboxReason[];
}

/**
 * A heartbeat is written three times in the time for which a row is good. Each process judges by what is left of that, and by
 * the database's clock, so that all of them say the same.
 */
export function seeRelays(
  { instances, now }: { readonly instances: readonly LiveInstance[]; readonly now: number },
  names: ReadonlyMap<number, string>,
): SeenRelay[] {
  return instances.map(({ owner, info, transports, until = Infinity }) => {
    const troubles = troublesOf(info);
    const has = transports.flatMap((number) => names.get(number) ?? []);
    const away = troubles.flatMap(({ code, transport }) => (code.startsWith('transport_') ? (transport ?? []) : []));
    const lease = toldLease(info);
    const good = Math.min(lease ?? 0, MOST_GOOD);
    const isSilent = until - now < good / 3;
    return {
      owner,
      place: printable(toldPlace(info)),
      lease,
      state: until <= now ? 'gone' : isSilent ? 'silent' : 'live',
      heardAt: new Date(Math.min(until - good, now)),
      transports: [...new Set([...has, ...away])],
      troubles,
    };
  });
}

/** Why nothing of the transport goes out through this relay; `undefined`: it publishes. */
export const stopOf = ({ troubles }: Pick<SeenRelay, 'troubles'>, name: string): OutboxReason | undefined =>
  troubles.find(({ code, transport }) => WHOLE.has(code) || (transport === name && STOPS.has(code)));
/** Nothing goes out to the transport. */
export const STOPS: ReadonlySet<ReasonCode> = new Set<ReasonCode>([
  'transport_down',
  'transport_blocked',
  'reads_failing',
]);
/** A relay publishes nothing at all. */
export const WHOLE: ReadonlySet<ReasonCode> = new Set<ReasonCode>(['lease_renewal_failing', 'database_copied']);

/** How many live and have the transport. */
export const liveOf = (transport: string, relays: readonly SeenRelay[]): number =>
  relays.filter(({ state, transports }) => state === 'live' && transports.includes(transport)).length;

/** Why the relay of this row does not publish all that it should. What is not as ours, of another version or of somebody's hand, is left out. */
export function troublesOf(info: string): OutboxReason[] {
  return toldTroubles(info).flatMap((told) => {
    const { code, text, transport, destination, since } = Object(told) as Record<string, unknown>;
    if (!REASON_CODES.includes(code as ReasonCode) || typeof text !== 'string') return [];
    const at = new Date(String(since));
    return {
      code: code as ReasonCode,
      text: printable(text),
      ...(typeof transport === 'string' && { transport: printable(transport) }),
      ...(typeof destination === 'string' && { destination: printable(destination) }),
      ...(!Number.isNaN(at.getTime()) && { since: at }),
    };
  });
}

/** Milliseconds for which a heartbeat is good at most, whatever the lease. */
const MOST_GOOD = 300_000;
