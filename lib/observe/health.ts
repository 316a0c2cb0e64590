import { durationText } from '../time/duration.js';
import { countedReasons, heldBy } from './counted-reasons.js';
import { reason, type OutboxReason, type ReasonCode } from './reason-codes.js';
import { relayTroubles, sentence, type TransportView, type TroubledRelay } from './relay-troubles.js';
import { STOPS, stopOf, WHOLE, type SeenRelay } from './seen-relays.js';
import { errorText } from './redact/error-text.js';
import { isRefusal } from '../store/database-errors.js';
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
  /** Why it is not `up`. */
  readonly reasons: readonly OutboxReason[];
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

/** What health reads of a relay's status. */
export interface RelayView extends TroubledRelay {
  readonly running: boolean;
  readonly owner?: string;
  readonly storeDownFor: number | null;
  readonly heartbeatLate?: number;
  readonly slowRenewal?: number | null;
  readonly heldSnapshot?: { readonly text: string; readonly isSlow: boolean } | null;
}

/** The counts, why there are none, or that there are none yet: after so many milliseconds. */
export type Counts = Counted | { readonly error: unknown } | { readonly late: number };
export interface Counted extends Pick<OutboxStats, 'transports'>, Partial<Pick<OutboxStats, 'total'>> {
  /** By the name of the transport; absent: nothing was compared. */
  readonly standing?: ReadonlyMap<string, Standstill>;
  /** The database takes no writes. */
  readonly readOnly?: boolean;
  /** What operators have paused. */
  readonly pauses?: readonly NamedPause[];
  /** All relays whose rows are there, that of this process among them. */
  readonly relays?: readonly SeenRelay[];
}

export interface HealthSources {
  /** Milliseconds. */
  readonly lease?: number;
  readonly mode: boolean | 'manual';
  readonly relay: RelayView;
  readonly transports: ReadonlyMap<string, { readonly kind: string; readonly receipt: 'broker' | 'handler' | 'none' }>;
  readonly stats: Counts;
  /** Milliseconds since the epoch. */
  readonly now?: number;
  /** Milliseconds. */
  readonly publishTimeout?: number;
  readonly ordering?: StoreSettings['ordering'];
  readonly coordination?: StoreSettings['coordination'];
  /** Whether the relay has read this message of the transport, or has no room for it. */
  readonly waitsFor?: (transport: string, seq: string) => boolean;
}

export function healthOf(sources: HealthSources): OutboxHealth {
  const { mode, relay, stats, now = 0 } = sources;
  const counts = 'transports' in stats ? stats.transports : {};
  const own = relayTroubles(relay, now);
  const down = downReasons(sources, own);
  const publishers = publishersOf(sources, own);
  const all = [...down, ...problems(sources, own, publishers)];
  const reasons = [...all, ...standstills(sources, all, down.length > 0)];
  const concerned = new Set(publishers.flatMap(({ transports }) => transports));
  for (const { code, transport } of all) if (NOBODY.has(code)) concerned.add(transport as string);
  const goesOut = (name: string): boolean =>
    publishers.some((each) => each.transports.includes(name) && stopOf(each, name) === undefined);
  const isDown = mode !== 'manual' || publishers.length > 0;
  return {
    status:
      down.length > 0 || (isDown && concerned.size > 0 && ![...concerned].some(goesOut))
        ? 'down'
        : reasons.length > 0
          ? 'degraded'
          : 'up',
    reasons,
    relay: {
      mode,
      running: relay.running,
      storeDownFor: relay.storeDownFor,
      heartbeatLate: relay.heartbeatLate ?? 0,
      heldSnapshot: relay.heldSnapshot?.text ?? null,
    },
    transports: reportsOf(sources, counts),
  };
}

/** Who publishes, or would if it could. */
type Publisher = Pick<SeenRelay, 'transports' | 'troubles'>;

/** With `relay: 'manual'` this process has its part while a pass runs, and while it cannot reach a broker. */
function publishersOf({ relay, stats }: HealthSources, troubles: readonly OutboxReason[]): Publisher[] {
  const views = relay.transports.filter(({ circuit }) => relay.running || circuit !== 'closed');
  const own = { transports: views.map(({ transport }) => transport), troubles };
  return [...(views.length > 0 ? [own] : []), ...others(relay, stats).filter(({ state }) => state === 'live')];
}

const others = ({ owner }: RelayView, stats: Counts): readonly SeenRelay[] =>
  ('relays' in stats ? (stats.relays ?? []) : []).filter((each) => each.owner !== owner);

const NOBODY: ReadonlySet<ReasonCode> = new Set<ReasonCode>(['no_relay', 'relay_silent']);

/** Why nothing goes out of this process, or of any. */
function downReasons({ mode, relay, stats }: HealthSources, own: readonly OutboxReason[]): OutboxReason[] {
  return [
    ...('error' in stats && !isRefusal(stats.error) ? [silence(stats.error)] : []),
    ...('readOnly' in stats && stats.readOnly === true ? [READ_ONLY] : []),
    ...own.filter(({ code }) => WHOLE.has(code)),
    ...(mode === true && !relay.running ? [reason('relay_stopped', 'The relay is not running.')] : []),
  ];
}

/** What somebody should look at. */
function problems(
  sources: HealthSources,
  own: readonly OutboxReason[],
  publishers: readonly Publisher[],
): OutboxReason[] {
  const { relay, stats, lease = Infinity } = sources;
  const { heartbeatLate = 0, slowRenewal = null, heldSnapshot = null } = relay;
  const seen = others(relay, stats);
  return [
    ...(heartbeatLate > lease / 3 ? [stoodStill(heartbeatLate)] : []),
    ...(slowRenewal === null ? [] : [tooSlow(slowRenewal)]),
    ...(heldSnapshot?.isSlow === true ? [reason('snapshot_held', `${heldSnapshot.text}.`)] : []),
    ...('error' in stats && isRefusal(stats.error) ? [refusal(stats.error)] : []),
    ...('late' in stats ? [notCounted(stats.late)] : []),
    ...own.filter(({ code }) => !WHOLE.has(code)),
    ...saidElsewhere(seen, own),
    ...pauseReasons(pausesOf(stats)),
    ...Object.entries('transports' in stats ? stats.transports : {}).flatMap(([name, one]) => {
      const isPublished = publishers.some(({ transports }) => transports.includes(name));
      return countedReasons(name, one, { relays: seen, isPublished, hasPaused: hasPausedParts(name, stats) });
    }),
  ];
}

/** What other relays say of themselves; alike of several, once. */
function saidElsewhere(relays: readonly SeenRelay[], own: readonly OutboxReason[]): OutboxReason[] {
  const said = new Map(own.map((one) => [one.text, one]));
  for (const { state, place, troubles } of relays) {
    if (state !== 'live') continue;
    for (const one of troubles) if (!said.has(one.text)) said.set(one.text, { ...one, relay: place });
  }
  return [...said.values()].slice(own.length);
}

function standstills(sources: HealthSources, said: readonly OutboxReason[], isDown: boolean): OutboxReason[] {
  const { stats } = sources;
  const standing = 'standing' in stats ? [...(stats.standing ?? [])] : [];
  return standing.flatMap(([name, one]) => standstill(one, around(name, sources, said, isDown)));
}

function reportsOf(sources: HealthSources, counts: OutboxStats['transports']): OutboxHealth['transports'] {
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
      stats: counts[name] ?? null,
    };
  }
  return reports;
}

/** Why nothing of a transport goes out may be said already: of its broker, of what it publishes to, of the database. */
function around(name: string, sources: HealthSources, said: readonly OutboxReason[], isDown: boolean): Around {
  const {
    relay,
    stats,
    lease = Infinity,
    publishTimeout = Infinity,
    ordering,
    coordination,
    waitsFor,
    now = 0,
  } = sources;
  const view = relay.transports.find(({ transport }) => transport === name);
  const counts = 'transports' in stats ? stats.transports[name] : undefined;
  return {
    name,
    now,
    lease,
    soon: Math.max(lease / 3, publishTimeout + A_BREATH),
    isSaid:
      isDown ||
      pauseOf(name, stats) !== null ||
      said.some(({ code, transport }) => transport === name && EXPLAINS.has(code)),
    holds: ordering !== 'global' || (counts?.blockedKeys ?? 0) === 0 ? null : heldBy(hasPausedParts(name, stats)),
    owner: relay.owner,
    leased: view === undefined ? undefined : new Set(view.buckets),
    unleased: coordination === 'rowLock',
    waitsFor: (seq) => waitsFor?.(name, seq) ?? false,
  };
}
const EXPLAINS: ReadonlySet<ReasonCode> = new Set<ReasonCode>([
  ...STOPS,
  ...NOBODY,
  'database_refuses',
  'destination_away',
]);
/** Milliseconds for what is not the publish. */
const A_BREATH = 5_000;

const READ_ONLY = reason(
  'database_read_only',
  'The database is read-only: nothing can be enqueued or written down. Lead the connections to the primary.',
);

const stoodStill = (ms: number): OutboxReason =>
  reason('process_stood_still', `The process was frozen or blocked for ${durationText(ms)}.`);

const notCounted = (ms: number): OutboxReason =>
  reason('counts_late', `The database has not counted the messages within ${durationText(ms)}.`);

const tooSlow = (ms: number): OutboxReason =>
  reason(
    'lease_renewal_slow',
    `Renewing the leases took ${durationText(Math.round(ms))}. That leaves no time to publish in: raise \`lease\`, or lower \`publishTimeout\`.`,
  );

const refusal = (error: unknown): OutboxReason =>
  reason('database_refuses', sentence('Reading the counts of the messages fails', errorText(error)));

const silence = (error: unknown): OutboxReason =>
  reason(
    'database_silent',
    error instanceof StoreClosed ? error.message : sentence('The database does not answer', errorText(error)),
  );
