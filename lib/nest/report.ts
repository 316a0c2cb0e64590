import { within, type Clock } from '../time/clock.js';
import type { OutboxDispatcher } from '../relay/dispatcher.js';
import type { ReadyKnowledge } from '../relay/contracts.js';
import type { EnqueueRuntime } from '../enqueue/runtime.js';
import { healthOf, type Counts } from '../observe/health.js';
import { Probe } from '../observe/probe.js';
import { readStats } from '../observe/stats.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Roles } from '../store/outbox-store.js';

/** Milliseconds: probes give up after a few seconds, a database that fell silent is given up only after many. */
const HEALTH_TIMEOUT = 2_000;
/** Milliseconds for which an answer is good. Probes are many, and a look at a database that was slow is not repeated at once. */
const GOOD_FOR = 1_000;
const LATE_GOOD_FOR = 10_000;

export interface ReportSources {
  readonly store: Roles<'admin' | 'leases' | 'operators'>;
  readonly dispatcher: Pick<OutboxDispatcher, 'status' | 'relays'>;
  readonly options: Pick<
    ResolvedOptions,
    'relay' | 'lease' | 'transports' | 'publishTimeout' | 'buckets' | 'ordering' | 'coordination'
  >;
  readonly transportIds: ReadonlyMap<string, number>;
  readonly clock: Clock;
}

/** What `stats()` and `health()` answer. */
export function reportOf(sources: ReportSources): EnqueueRuntime['report'] {
  const { store, dispatcher, options, transportIds, clock } = sources;
  const known = (transport: number | undefined): ReadyKnowledge | undefined =>
    dispatcher.relays.map(({ knows }) => knows).find((each) => each !== undefined && each.transport === transport);
  const probe = new Probe(store, {
    lease: options.lease,
    buckets: options.ordering === 'global' ? 1 : options.buckets,
    ids: transportIds,
    now: () => clock.monotonic(),
    goneUpTo: (transport) => known(transport)?.goneUpTo ?? (() => '0'),
  });
  const ask = async (): Promise<Counts> => {
    // What the database does not answer here it does not answer there either; and who may not read it, reads the rest.
    const [counts, pauses] = await Promise.all([probe.ask(), store.operators?.pauses().catch(() => [])]);
    return 'transports' in counts && pauses !== undefined ? { ...counts, pauses } : counts;
  };
  const counted = shared(clock, () => ask().catch((error: unknown) => ({ error })));
  const { lease, publishTimeout, ordering, coordination, transports, relay: mode } = options;
  return {
    async stats() {
      const beside = { statuses: dispatcher.status().transports, now: clock.wall() };
      return readStats(store, transportIds, beside);
    },
    async health() {
      const stats = await counted();
      const waitsFor = (name: string, seq: string): boolean => known(transportIds.get(name))?.waitsFor(seq) ?? false;
      const about = { lease, publishTimeout, ordering, coordination, waitsFor, now: clock.wall() };
      return healthOf({ mode, relay: dispatcher.status(), transports, stats, ...about });
    },
  };
}

/**
 * All who ask meanwhile, or soon after it, get the same answer: in a silent database each question would keep one of few
 * connections. Who does not get it in time gets the failure before it, or that it is late.
 */
function shared(clock: Clock, ask: () => Promise<Counts>): () => Promise<Counts> {
  let underWay: Promise<Counts> | undefined;
  let before: Counts | undefined;
  let goodUntil = -Infinity;
  const counted = async (): Promise<Counts> => {
    before = await ask().finally(() => (underWay = undefined));
    goodUntil = 'error' in before ? -Infinity : clock.monotonic() + ('late' in before ? LATE_GOOD_FOR : GOOD_FOR);
    return before;
  };
  return async () => {
    if (before !== undefined && clock.monotonic() < goodUntil) return before;
    const answer = (underWay ??= counted());
    if (await within(clock, HEALTH_TIMEOUT, answer)) return answer;
    return before !== undefined && 'error' in before ? before : { late: HEALTH_TIMEOUT };
  };
}
