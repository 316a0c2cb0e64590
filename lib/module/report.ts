import { within, type Clock } from '../dispatch/clock.js';
import type { OutboxDispatcher } from '../dispatch/dispatcher.js';
import type { EnqueueRuntime } from '../enqueue/runtime.js';
import { healthOf, type Counts } from '../observe/health.js';
import { readStats, type OutboxStats } from '../observe/stats.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { AdminStore } from '../store/admin-store.js';

/** Milliseconds: probes give up after a few seconds, a database that fell silent is given up only after many. */
const HEALTH_TIMEOUT = 2_000;

export interface ReportSources {
  readonly store: AdminStore;
  readonly dispatcher: Pick<OutboxDispatcher, 'status'>;
  readonly options: Pick<ResolvedOptions, 'relay' | 'lease' | 'transports'>;
  readonly transportIds: ReadonlyMap<string, number>;
  readonly clock: Clock;
}

/** What `stats()` and `health()` answer. */
export function reportOf({ store, dispatcher, options, transportIds, clock }: ReportSources): EnqueueRuntime['report'] {
  const stats = (): Promise<OutboxStats> => readStats(store, transportIds);
  const counted = shared(clock, async (): Promise<Counts> => stats().catch((error: unknown) => ({ error })));
  return {
    stats,
    async health() {
      const counts = await counted();
      return healthOf({
        mode: options.relay,
        lease: options.lease,
        relay: dispatcher.status(),
        transports: options.transports,
        stats: counts,
      });
    },
  };
}

/**
 * All who ask meanwhile wait for the same answer: in a silent database each question would keep one of few connections. Who
 * does not get it in time gets the failure before it, or that it is late: millions of rows are counted for seconds, too.
 */
function shared(clock: Clock, ask: () => Promise<Counts>): () => Promise<Counts> {
  let underWay: Promise<Counts> | undefined;
  let before: Counts | undefined;
  const counted = async (): Promise<Counts> => (before = await ask().finally(() => (underWay = undefined)));
  return async () => {
    const answer = (underWay ??= counted());
    if (await within(clock, HEALTH_TIMEOUT, answer)) return answer;
    return before !== undefined && 'error' in before ? before : { late: HEALTH_TIMEOUT };
  };
}
