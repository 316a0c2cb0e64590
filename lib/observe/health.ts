import { durationText } from '../duration.js';
import { errorText } from './error-text.js';
import type { OutboxStats, OutboxTransportStats } from './stats.js';

export interface OutboxHealth {
  /** `degraded`: messages are safe and most go out, but somebody should look. `down`: nothing goes out. */
  readonly status: 'up' | 'degraded' | 'down';
  /** Why it is not `up`, one sentence each. */
  readonly reasons: readonly string[];
  readonly relay: {
    readonly mode: boolean | 'manual';
    readonly running: boolean;
    readonly storeDownFor: number | null;
    /** By how much the last heartbeat of the leases came too late, milliseconds; above `lease` / 3 the status is `degraded`. */
    readonly heartbeatLate: number;
  };
  readonly transports: Readonly<Record<string, TransportHealthReport>>;
}
export interface TransportHealthReport {
  readonly kind: string;
  /** What a publish is worth here: stored by the broker, finished by a handler, or only handed off (`none`). */
  readonly receipt: 'broker' | 'handler' | 'none';
  /** `idle`: this process does not publish to it. */
  readonly circuit: LaneView['circuit'] | 'idle';
  readonly lastError: string | null;
  /** `null`: the database did not answer, or not in time. */
  readonly stats: OutboxTransportStats | null;
}

/** What health reads of a relay's status and of its lanes. */
export interface RelayView {
  readonly running: boolean;
  readonly storeDownFor: number | null;
  readonly heldBack?: string | null;
  readonly heartbeatLate?: number;
  readonly lanes: readonly LaneView[];
}
export interface LaneView {
  readonly transport: string;
  readonly receipt: 'broker' | 'handler' | 'none';
  readonly circuit: 'closed' | 'open' | 'probing' | 'blocked';
  readonly lastError: string | null;
}

/** The counts, why there are none, or that there are none yet: after so many milliseconds. */
export type Counts = OutboxStats | { readonly error: unknown } | { readonly late: number };

export interface HealthSources {
  /** Milliseconds. */
  readonly lease?: number;
  readonly mode: boolean | 'manual';
  readonly relay: RelayView;
  readonly transports: ReadonlyMap<string, { readonly kind: string; readonly receipt: 'broker' | 'handler' | 'none' }>;
  readonly stats: Counts;
}

export function healthOf({ mode, relay, transports, stats, lease = Infinity }: HealthSources): OutboxHealth {
  const counts = 'transports' in stats ? stats.transports : undefined;
  const down = [
    ...('error' in stats ? [`The database does not answer: ${errorText(stats.error)}.`] : []),
    ...(relay.storeDownFor === null
      ? []
      : [`The relay has not reached the database for ${durationText(Math.round(relay.storeDownFor))}.`]),
    ...(typeof relay.heldBack === 'string' ? [relay.heldBack] : []),
    ...(mode === true && !relay.running ? ['The relay is not running.'] : []),
  ];
  const lanes = new Map(relay.lanes.map((lane) => [lane.transport, lane]));
  const { heartbeatLate = 0 } = relay;
  const problems = [
    ...(heartbeatLate > lease / 3 ? [`The process stood still for ${durationText(heartbeatLate)}.`] : []),
    ...('late' in stats ? [`The database has not counted the messages within ${durationText(stats.late)}.`] : []),
    ...relay.lanes.flatMap(laneProblems),
    ...Object.entries(counts ?? {}).flatMap(([name, one]) => countProblems(name, one)),
  ];
  const allDown = relay.lanes.length > 0 && relay.lanes.every(({ circuit }) => circuit !== 'closed');
  const reports: Record<string, TransportHealthReport> = Object.create(null) as Record<string, TransportHealthReport>;
  for (const [name, { kind, receipt }] of transports) {
    const lane = lanes.get(name);
    reports[name] = {
      kind,
      receipt: lane?.receipt ?? receipt,
      circuit: lane?.circuit ?? 'idle',
      lastError: lane?.lastError ?? null,
      stats: counts?.[name] ?? null,
    };
  }
  return {
    status: down.length > 0 || allDown ? 'down' : problems.length > 0 ? 'degraded' : 'up',
    reasons: [...down, ...problems],
    relay: { mode, running: relay.running, storeDownFor: relay.storeDownFor, heartbeatLate },
    transports: reports,
  };
}

function laneProblems({ transport, circuit, lastError }: LaneView): string[] {
  if (circuit === 'closed') return [];
  const what = circuit === 'blocked' ? 'asks to wait' : 'is down';
  return [`Transport '${transport}' ${what}${lastError === null ? '' : `: ${lastError}`}.`];
}

function countProblems(name: string, stats: OutboxTransportStats): string[] {
  const waiting = stats.ready + stats.scheduled + stats.waiting + stats.blocked;
  const count = `${waiting}${stats.readyIsExact ? '' : ' or more'}`;
  return [
    ...(waiting > 0 && stats.instances === 0
      ? [`${count} messages for '${name}', which no live relay publishes.`]
      : []),
    ...(stats.dead > 0 ? [`${stats.dead} dead messages for '${name}' wait for requeue or discard.`] : []),
    ...heldKeys(name, stats),
  ];
}

/** A retry that holds back nobody is no news; a key behind a dead message waits for an operator, also without messages. */
function heldKeys(name: string, { blockedKeys, blocked, dead }: OutboxTransportStats): string[] {
  if (blocked === 0 && (blockedKeys === 0 || dead === 0)) return [];
  const waiting = `with ${blocked} messages behind it: until it is published, requeued, discarded or released`;
  return [`${blockedKeys} keys of '${name}' are blocked by a failed message, ${waiting}.`];
}
