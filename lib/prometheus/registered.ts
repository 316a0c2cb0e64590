import type { Registry } from 'prom-client';
import { misconfigured } from '../outbox.errors.js';
import { METRICS, type Metric } from './catalogue.js';
import type { Sample } from './samples.js';

/** The methods that it uses of a registry of prom-client. */
export type MetricsRegistry = Pick<Registry, 'registerMetric' | 'removeSingleMetric'>;

/** One outbox, as a metric asks it. */
export interface Source {
  readonly name: string;
  readonly outbox: object;
  /** The name that its module gives it; one of an application has none like it. */
  readonly ownName: string | undefined;
  samples(metric: Metric): Promise<readonly Sample[]>;
}

/**
 * One metric in a registry, with the lines of every outbox that is shown there. A registry asks its metrics with `get()`. A metric
 * of prom-client would look up labels for each message; this one has its lines made when it is asked.
 */
class RegisteredMetric {
  /** A registry of OpenMetrics changes it. */
  name: string;
  readonly help: string;
  readonly type: Metric['type'];
  /** How a cluster puts the metrics of its workers together: all show the same tables, and each counts its own events. */
  readonly aggregator: 'sum' | 'max';

  constructor(
    private readonly metric: Metric,
    private readonly sources: ReadonlySet<Source>,
  ) {
    this.name = metric.name;
    this.help = metric.help;
    this.type = metric.type;
    this.aggregator = metric.type === 'gauge' ? 'max' : 'sum';
  }

  async get(): Promise<object> {
    const values = await Promise.all([...this.sources].map((source) => source.samples(this.metric)));
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: values.flat() };
  }

  /** For `registry.resetMetrics()`: what is counted here is not taken back. */
  reset(): void {}
}

interface Registered {
  readonly sources: Set<Source>;
  readonly metrics: readonly RegisteredMetric[];
}
const registered = new WeakMap<object, Registered>();

/**
 * The outbox of an application takes the place of the one of an application before, which nobody may wait for: a hot reload, a test.
 * @returns what takes it out of the registry again
 */
export function register(registry: MetricsRegistry, source: Source): () => void {
  const { sources, metrics } = registered.get(registry) ?? begin(registry);
  const former = [...sources].find(({ name }) => name === source.name);
  if (former !== undefined && !succeeds(source, former)) {
    const hint = 'Give the name of the outbox: new OutboxPrometheus(outbox, { name, registry }).';
    misconfigured(`The registry shows an outbox '${source.name}' already.`, hint);
  }
  // Of one that was cleared meanwhile as well.
  for (const metric of metrics) registry.registerMetric(metric as unknown as Parameters<Registry['registerMetric']>[0]);
  if (former !== undefined) sources.delete(former);
  sources.add(source);
  return () => {
    sources.delete(source);
    if (sources.size > 0 || registered.get(registry)?.sources !== sources) return;
    registered.delete(registry);
    for (const { name } of METRICS) registry.removeSingleMetric(name);
  };
}

function succeeds({ outbox, ownName }: Source, former: Source): boolean {
  return outbox !== former.outbox && ownName !== undefined && ownName === former.ownName;
}

function begin(registry: MetricsRegistry): Registered {
  const sources = new Set<Source>();
  const made = { sources, metrics: METRICS.map((metric) => new RegisteredMetric(metric, sources)) };
  registered.set(registry, made);
  return made;
}
