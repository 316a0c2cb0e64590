import { durationText } from '../time/duration.js';
import { counted } from './plural.js';
import { countedReasons } from './counted-reasons.js';
import { reason, type Reason, type ReasonCode } from './reason-codes.js';
import { errorText } from './redact/error-text.js';
import { StoreClosed } from '../store/executor.js';
import type { Standstill } from './standing.js';
import { standstill, type Around } from './standstill.js';
import type { OutboxStats, OutboxTransportStats } from './stats.js';
import { hasPausedParts, pauseOf, pauseReasons, pausesOf } from './paused.js';
import type { NamedPause } from '../store/pauses/pause-store.js';
import type { StoreSettings } from '../store/names.js';

export interface OutboxHealth {
  /** `degraded`: messages are safe and most go out, but somebody should look. `down`: nothing goes out. */
  readonly status: 'up' | 'degraded' | 'down';
  /** Why it is not `up`, one sentence each. */
  readonly reasons: readonly string[];
  /** What each of the reasons is about, in their order: a word for programs, as its sentence may change. */
  readonly codes: readonly ReasonCode[];
  readonly relay: {
    readonly mode: boolean | 'manual';
    readonly running: boolean;
    readonly storeDownFor: number | null;
    /** By how much the last heartbeat of the leases came too late, milliseconds; above `lease` / 3 the status is `degraded`. */
    readonly heartbeatLate: number;
    /** Which session holds a snapshot that keeps dead rows in the way of reads; `degraded` once messages are late for it. */
    readonly heldSnapshot: string | null;
  };
  readonly transports: Readonly<Record<string, TransportHealthReport>>;
}
export interface TransportHealthReport {
  readonly kind: string;
  /** What a publish is worth here: stored by the broker, finished by a handler, or only handed off (`none`). */
  readonly receipt: 'broker' | 'handler' | 'none';
  /** `idle`: this process does not publish to it. */
  readonly circuit: TransportView['circuit'] | 'idle';
  readonly lastError: string | null;
  /** Who paused it for all instances; `null`: nobody, or the database did not answer. */
  readonly paused: TransportPause | null;
  /** `null`: the database did not answer, or not in time. */
  readonly stats: OutboxTransportStats | null;
}

/** A pause by an operator. */
export interface TransportPause {
  /** By the database's clock. */
  readonly since: Date;
  readonly by: string;
  readonly reason: string;
}

/** What health reads of a relay's status, and of each of its transports. */
export interface RelayView {
  readonly running: boolean;
  readonly owner?: string;
  readonly storeDownFor: number | null;
  readonly failing?: readonly FailingView[];
  readonly heldBack?: string | null;
  readonly heartbeatLate?: number;
  readonly slowRenewal?: number | null;
  readonly heldSnapshot?: { readonly text: string; readonly isSlow: boolean } | null;
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

/** The counts, why there are none, or that there are none yet: after so many milliseconds. */
export type Counts = Counted | { readonly error: unknown } | { readonly late: number };
export interface Counted extends Pick<OutboxStats, 'transports'>, Partial<Pick<OutboxStats, 'total'>> {
  /** By the name of the transport; absent where the store has no `glance`. */
  readonly standing?: ReadonlyMap<string, Standstill>;
  /** The database takes no writes. */
  readonly readOnly?: boolean;
  /** What operators have paused. */
  readonly pauses?: readonly NamedPause[];
}

export interface HealthSources {
  /** Milliseconds. */
  readonly lease?: number;
  readonly mode: boolean | 'manual';
  readonly relay: RelayView;
  readonly transports: ReadonlyMap<string, { readonly kind: string; readonly receipt: 'broker' | 'handler' | 'none' }>;
  readonly stats: Counts;
  /** Milliseconds. */
  readonly publishTimeout?: number;
  readonly ordering?: StoreSettings['ordering'];
  readonly coordination?: StoreSettings['coordination'];
  /** Whether the relay has read this message of the transport, or has no room for it. */
  readonly waitsFor?: (transport: string, seq: string) => boolean;
}

export function healthOf(sources: HealthSources): OutboxHealth {
  const { mode, relay, stats } = sources;
  const { heldSnapshot = null, failing = [] } = relay;
  const counts = 'transports' in stats ? stats.transports : undefined;
  const down = downReasons(sources);
  const all = [...down, ...problems(sources, counts, down.length > 0)];
  const unread = failing.filter(({ operation }) => operation === 'fetch').map(({ transport }) => transport);
  const isDown = ({ circuit, transport }: TransportView): boolean => circuit !== 'closed' || unread.includes(transport);
  const allDown = relay.transports.length > 0 && relay.transports.every(isDown);
  return {
    status: down.length > 0 || allDown ? 'down' : all.length > 0 ? 'degraded' : 'up',
    reasons: all.map(({ text }) => text),
    codes: all.map(({ code }) => code),
    relay: {
      mode,
      running: relay.running,
      storeDownFor: relay.storeDownFor,
      heartbeatLate: relay.heartbeatLate ?? 0,
      heldSnapshot: heldSnapshot?.text ?? null,
    },
    transports: reportsOf(sources, counts),
  };
}

/** Why nothing goes out. */
function downReasons({ mode, relay, stats }: HealthSources): Reason[] {
  return [
    ...('error' in stats ? [silence(stats.error)] : []),
    ...('readOnly' in stats && stats.readOnly === true ? [READ_ONLY] : []),
    ...failures((relay.failing ?? []).filter(({ operation }) => operation === 'lease')),
    ...(typeof relay.heldBack === 'string' ? [reason('database_copied', relay.heldBack)] : []),
    ...(mode === true && !relay.running ? [reason('relay_stopped', 'The relay is not running.')] : []),
  ];
}

/** What somebody should look at. */
function problems(sources: HealthSources, counts: OutboxStats['transports'] | undefined, isDown: boolean): Reason[] {
  const { relay, stats, lease = Infinity } = sources;
  const { heartbeatLate = 0, slowRenewal = null, heldSnapshot = null, failing = [] } = relay;
  const standing = 'standing' in stats ? [...(stats.standing ?? [])] : [];
  return [
    ...(heartbeatLate > lease / 3 ? [stoodStill(heartbeatLate)] : []),
    ...(slowRenewal === null ? [] : [tooSlow(slowRenewal)]),
    ...(heldSnapshot?.isSlow === true ? [reason('snapshot_held', `${heldSnapshot.text}.`)] : []),
    ...('late' in stats ? [notCounted(stats.late)] : []),
    ...failures(failing.filter(({ operation }) => operation !== 'lease')),
    ...relay.transports.flatMap(transportProblems),
    ...pauseReasons(pausesOf(stats)),
    ...Object.entries(counts ?? {}).flatMap(([name, one]) =>
      countedReasons(name, one, isOrphan(name, one, relay), hasPausedParts(name, stats)),
    ),
    ...standing
      .flatMap(([name, one]) => standstill(one, around(name, counts?.[name], sources, isDown)))
      .map((text) => reason('standing_still', text)),
  ];
}

/**
 * No heartbeat names the transport. The running relay of this process publishes to it all the same before its first heartbeat,
 * and until the next one after its broker came back; while its broker is away, and when heartbeats fail, that is said already.
 */
function isOrphan(name: string, { instances }: OutboxTransportStats, { running, transports }: RelayView): boolean {
  const view = transports.find(({ transport }) => transport === name);
  return instances === 0 && (view === undefined || (!running && view.circuit === 'closed'));
}

function reportsOf(sources: HealthSources, counts: OutboxStats['transports'] | undefined): OutboxHealth['transports'] {
  const { transports, relay } = sources;
  const views = new Map(relay.transports.map((view) => [view.transport, view]));
  const reports: Record<string, TransportHealthReport> = Object.create(null) as Record<string, TransportHealthReport>;
  for (const [name, { kind, receipt }] of transports) {
    const view = views.get(name);
    reports[name] = {
      kind,
      receipt: view?.receipt ?? receipt,
      circuit: view?.circuit ?? 'idle',
      lastError: view?.lastError ?? null,
      paused: pauseOf(name, sources.stats),
      stats: counts?.[name] ?? null,
    };
  }
  return reports;
}

/** Why nothing of a transport goes out may be said already: of its broker, of what it publishes to, of the database. */
function around(
  name: string,
  counts: OutboxTransportStats | undefined,
  sources: HealthSources,
  isDown: boolean,
): Around {
  const { relay, lease = Infinity, publishTimeout = Infinity, ordering, coordination, waitsFor } = sources;
  const view = relay.transports.find(({ transport }) => transport === name);
  const isHeld = ordering === 'global' && (counts?.blockedKeys ?? 0) > 0;
  const fails = (relay.failing ?? []).some(({ transport }) => transport === name);
  const isTransportAway =
    view !== undefined && (view.circuit !== 'closed' || (view.away ?? []).some(({ putOff }) => putOff > 0));
  return {
    name,
    lease,
    soon: Math.max(lease / 3, publishTimeout + A_BREATH),
    isSaid:
      isDown ||
      fails ||
      isTransportAway ||
      pauseOf(name, sources.stats) !== null ||
      (counts !== undefined && isOrphan(name, counts, relay)),
    isHeld,
    owner: relay.owner,
    leased: view === undefined ? undefined : new Set(view.buckets),
    unleased: coordination === 'rowLock',
    waitsFor: (seq) => waitsFor?.(name, seq) ?? false,
  };
}
/** Milliseconds for what is not the publish. */
const A_BREATH = 5_000;

const READ_ONLY = reason(
  'database_read_only',
  'The database is read-only: nothing can be enqueued or written down. Lead the connections to the primary.',
);

const stoodStill = (ms: number): Reason =>
  reason('process_stood_still', `The process stood still for ${durationText(ms)}.`);

const notCounted = (ms: number): Reason =>
  reason('counts_late', `The database has not counted the messages within ${durationText(ms)}.`);

const tooSlow = (ms: number): Reason =>
  reason(
    'lease_renewal_slow',
    `Renewing the leases took ${durationText(Math.round(ms))}. That leaves no time to publish in: raise \`lease\`, or lower \`publishTimeout\`.`,
  );

const silence = (error: unknown): Reason =>
  reason(
    'database_silent',
    error instanceof StoreClosed ? error.message : sentence('The database does not answer', errorText(error)),
  );

/** What the database does not do, once for all transports that want it. */
function failures(failing: readonly FailingView[]): Reason[] {
  return (Object.keys(TASKS) as (keyof typeof TASKS)[]).flatMap((operation) => {
    const alike = failing.filter((each) => each.operation === operation);
    const [first, ...others] = alike.sort((a, b) => b.failingFor - a.failingFor);
    if (first === undefined) return [];
    const of = first.transport === null ? '' : ` of '${first.transport}'`;
    const more = others.length > 0 ? `, and of ${others.length} more,` : '';
    const text = `${TASKS[operation]}${of}${more} has failed for ${secondsText(first.failingFor)}`;
    return [reason(operation === 'lease' ? 'lease_renewal_failing' : 'database_refuses', sentence(text, first.error))];
  });
}
const TASKS = {
  lease: 'Renewing the leases in the database',
  fetch: 'Reading the ready messages',
  take: 'Reading what is due or may go on',
  settle: 'Writing down what was published',
  park: 'Writing down what failed or is behind it',
  deadLetter: 'Reading the dead letters for the hook',
} as const;

/** In whole seconds. */
const secondsText = (ms: number): string => String(durationText(Math.ceil(ms / 1_000) * 1_000));

function transportProblems({ transport, circuit, lastError, onTrial = 0, away = [] }: TransportView): Reason[] {
  const [code, what] =
    circuit === 'blocked' ? (['transport_blocked', 'asks to wait'] as const) : (['transport_down', 'is down'] as const);
  return [
    ...(circuit === 'closed' ? [] : [reason(code, sentence(`Transport '${transport}' ${what}`, lastError))]),
    ...(onTrial > 0 ? [trial(transport, onTrial)] : []),
    ...away.slice(0, MOST_AWAY).map((one) => awayReason(transport, one)),
    ...(away.length > MOST_AWAY ? [moreAway(transport, away.length - MOST_AWAY)] : []),
  ];
}

const trial = (transport: string, count: number): Reason =>
  reason(
    'trial',
    `Transport '${transport}': ${counted(count, 'message')} ${count === 1 ? 'goes' : 'go'} one by one, as owner after owner disappeared while it published.`,
  );

function awayReason(transport: string, { name, awayFor, putOff, error }: AwayView): Reason {
  const since = `for ${durationText(Math.round(awayFor / 1_000) * 1_000)}`;
  const what =
    putOff === 0 ? `has been missing ${since}` : `takes nothing ${since} (put off ${counted(putOff, 'time')})`;
  const code = putOff === 0 ? 'destination_missing' : 'destination_away';
  return reason(code, sentence(`Transport '${transport}': ${name} ${what}`, error));
}

const moreAway = (transport: string, count: number): Reason =>
  reason('destination_away', `Transport '${transport}': ${count} more ${count === 1 ? 'takes' : 'take'} nothing.`);

const sentence = (text: string, error: string | null): string =>
  error === null ? `${text}.` : `${text}: ${error}${error.endsWith('.') ? '' : '.'}`;
/** Destinations by name: an answer of health is short. */
const MOST_AWAY = 5;
