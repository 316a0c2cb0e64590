import { ago, reason, type OutboxReason, type ReasonCode } from './reason-codes.js';

/** What a relay knows of itself. */
export interface TroubledRelay {
  readonly heldBack?: string | null;
  readonly failing?: readonly FailingView[];
  readonly transports: readonly TransportView[];
}
export interface FailingView {
  readonly operation: keyof typeof TASKS;
  readonly transport: string | null;
  /** Milliseconds. */
  readonly failingFor: number;
  readonly error: string;
}
export interface TransportView {
  readonly transport: string;
  readonly receipt: 'broker' | 'handler' | 'none';
  readonly circuit: 'closed' | 'open' | 'probing' | 'blocked';
  /** Milliseconds for which the circuit has not been closed. */
  readonly openFor?: number;
  readonly lastError: string | null;
  readonly buckets?: readonly number[];
  readonly onTrial?: number;
  readonly away?: readonly AwayView[];
}
/** One destination that takes nothing while others may; milliseconds. */
export interface AwayView {
  readonly name: string;
  readonly awayFor: number;
  readonly putOff: number;
  readonly error: string;
}

/**
 * Why a relay does not publish all that it should, as only it can know: its brokers, their destinations, what the database refuses
 * it. No text changes while its cause stays.
 * @param now milliseconds since the epoch
 */
export function relayTroubles({ heldBack, failing = [], transports }: TroubledRelay, now: number): OutboxReason[] {
  return [
    ...(typeof heldBack === 'string' ? [reason('database_copied', heldBack)] : []),
    ...failing.map((each) => failure(each, now)),
    ...transports.flatMap((each) => transportTroubles(each, now)),
  ];
}

function failure({ operation, transport, failingFor, error }: FailingView, now: number): OutboxReason {
  const of = transport === null ? '' : ` of '${transport}'`;
  const about = { since: ago(now, failingFor), ...(transport !== null && { transport }) };
  const code = FAILURES[operation] ?? 'database_refuses';
  return reason(code, sentence(`${TASKS[operation]}${of} fails`, error), about);
}
const FAILURES: Readonly<Record<string, ReasonCode>> = { lease: 'lease_renewal_failing', fetch: 'reads_failing' };
const TASKS = {
  lease: 'Renewing the leases in the database',
  fetch: 'Reading the ready messages',
  take: 'Reading due retries',
  settle: 'Recording what was published',
  park: 'Recording what failed',
  deadLetter: 'Reading the dead letters for the hook',
} as const;

function transportTroubles(
  { transport, circuit, openFor = 0, lastError, onTrial = 0, away = [] }: TransportView,
  now: number,
): OutboxReason[] {
  const [code, what] =
    circuit === 'blocked' ? (['transport_blocked', 'asks to wait'] as const) : (['transport_down', 'is down'] as const);
  const about = { transport, since: ago(now, openFor) };
  return [
    ...(circuit === 'closed' ? [] : [reason(code, sentence(`Transport '${transport}' ${what}`, lastError), about)]),
    ...(onTrial > 0 ? [trial(transport)] : []),
    ...away.slice(0, MOST_AWAY).map((one) => awayReason(transport, one, now)),
    ...(away.length > MOST_AWAY ? [moreAway(transport, away.length - MOST_AWAY)] : []),
  ];
}

const trial = (transport: string): OutboxReason =>
  reason(
    'trial',
    `Transport '${transport}': messages go one by one, as owner after owner disappeared while it published.`,
    { transport },
  );

function awayReason(transport: string, { name, awayFor, putOff, error }: AwayView, now: number): OutboxReason {
  const [code, what] =
    putOff === 0 ? (['destination_missing', 'is missing'] as const) : (['destination_away', 'takes nothing'] as const);
  const about = { transport, destination: name, since: ago(now, awayFor) };
  return reason(code, sentence(`Transport '${transport}': ${name} ${what}`, error), about);
}

const moreAway = (transport: string, count: number): OutboxReason =>
  reason('destination_away', `Transport '${transport}': ${count} more ${count === 1 ? 'takes' : 'take'} nothing.`, {
    transport,
  });

export const sentence = (text: string, error: string | null): string =>
  error === null ? `${text}.` : `${text}: ${error}${error.endsWith('.') ? '' : '.'}`;

/** Destinations by name: an answer of health is short. */
const MOST_AWAY = 5;
