import type { Registry } from 'prom-client';
import { misconfigured } from '../outbox.errors.js';
import type { Metric } from './catalogue.js';
import { subjectOf, type Sample } from './samples.js';

/** The methods that it uses of a registry of prom-client. */
export type MetricsRegistry = Pick<Registry, 'registerMetric' | 'removeSingleMetric'>;

/** One outbox or inbox, as a metric asks it. */
export interface Source {
  readonly name: string;
  readonly subject: object;
  /** The name that its module gives it; one of an application has none like it. */
  readonly ownName: string | undefined;
  samples(metric: Metric): Promise<readonly Sample[]>;
}

/**
 * One metric in a registry, with the lines of every outbox that is shown there. A registry asks its metrics with `get()`. A metric
 * of prom-client would look up labels for each message; this one has its lines made when it is asked.
 */
const metricOf = ({ name, help, type }: Metric, samples: () => Promise<readonly Sample[]>) => ({
  /** A registry of OpenMetrics changes it. */
  name,
  help,
  type,
  /** How a cluster puts the metrics of its workers together: all show the same tables, and each counts its own events. */
  aggregator: type === 'gauge' ? 'max' : 'sum',
  async get(): Promise<object> {
    return { name: this.name, help, type, aggregator: this.aggregator, values: await samples() };
  },
  /** For `registry.resetMetrics()`: what is counted here is not taken back. */
  reset(): void {},
});

/** By what is shown: a registry has the outboxes, the inboxes, or both. */
const registered = new Map<readonly Metric[], WeakMap<object, ReturnType<typeof begin>>>();

/**
 * The outbox of an application takes the place of the one of an application before, which nobody may wait for: a hot reload, a test.
 * @param all its metrics
 * @returns what takes it out of the registry again
 */
export function register(registry: MetricsRegistry, all: readonly Metric[], source: Source): () => void {
  const registries = registered.get(all) ?? new WeakMap<object, ReturnType<typeof begin>>();
  registered.set(all, registries);
  const { sources, metrics } = registries.get(registry) ?? begin(all);
  registries.set(registry, { sources, metrics });
  const former = [...sources].find(({ name }) => name === source.name);
  const succeeds =
    former?.subject !== source.subject && source.ownName !== undefined && source.ownName === former?.ownName;
  if (former !== undefined && !succeeds) {
    const what = `an ${subjectOf(all[0] as Metric)} '${source.name}'`;
    const hint = 'Give the name of the outbox: new OutboxPrometheus(outbox, { name, registry }); an inbox has its own.';
    misconfigured(`The registry shows ${what} already.`, hint);
  }
  // Of one that was cleared meanwhile as well.
  for (const metric of metrics) registry.registerMetric(metric as unknown as Parameters<Registry['registerMetric']>[0]);
  if (former !== undefined) sources.delete(former);
  sources.add(source);
  return () => {
    sources.delete(source);
    if (sources.size > 0 || registries.get(registry)?.sources !== sources) return;
    registries.delete(registry);
    for (const { name } of all) registry.removeSingleMetric(name);
  };
}

function begin(all: readonly Metric[]) {
  const sources = new Set<Source>();
  const lines = (metric: Metric) => async () =>
    (await Promise.all([...sources].map((source) => source.samples(metric)))).flat();
  return { sources, metrics: all.map((metric) => metricOf(metric, lines(metric))) };
}
