import type { OnApplicationShutdown } from '@nestjs/common';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { systemClock, type Clock } from '../time/clock.js';
import { COUNTING, EVENT_GAUGES, METRICS, TABLE_GAUGES, type Metric } from './catalogue.js';
import { countLines, healthLines, Scrape, snapshotLines, tableLines, type SnapshotAge } from './gauges.js';
import { resolvePrometheusOptions, type OutboxPrometheusOptions, type ResolvedPrometheusOptions } from './options.js';
import { Polled } from './polled.js';
import { register } from './registered.js';
import { EventMetrics } from './event-metrics.js';
import { timed } from './call-durations.js';

const UNKNOWN: SnapshotAge = { age: null, transactions: null };

/** The methods that it uses of the `OutboxService`. */
export type ObservedOutbox = Pick<OutboxService, 'events' | 'health' | 'stats'>;

/**
 * Shows one outbox in a registry of prom-client, until the application shuts down. As a provider:
 * `{ provide: OutboxPrometheus, inject: [OutboxService], useFactory: (outbox) => new OutboxPrometheus(outbox, { registry: register }) }`
 */
export class OutboxPrometheus implements OnApplicationShutdown {
  /** Ends listening, and takes what it shows out of the registry. */
  readonly close: () => void;

  constructor(outbox: ObservedOutbox, options: OutboxPrometheusOptions);
  /** @internal */
  constructor(outbox: ObservedOutbox, options: OutboxPrometheusOptions, clock: Clock);
  constructor(outbox: ObservedOutbox, options: OutboxPrometheusOptions, clock: Clock = systemClock) {
    this.close = show(outbox, resolvePrometheusOptions(options), clock);
  }

  onApplicationShutdown(): void {
    this.close();
  }
}

type Runtime = OutboxService['runtime'] | undefined;

/** @returns what ends it */
function show(outbox: ObservedOutbox, options: ResolvedPrometheusOptions, clock: Clock): () => void {
  const { registry, name, buckets } = options;
  const { runtime } = outbox as { readonly runtime?: Runtime };
  let looking: Promise<Scrape> | undefined;
  /** All metrics of one scrape share one look. */
  const samples = async (metric: Metric) => {
    looking ??= look(outbox, name, events, asked, clock).finally(() => (looking = undefined));
    return (await looking).lines.get(metric.name) ?? [];
  };
  const leave = register(registry, METRICS, { name, subject: outbox, ownName: runtime?.options.name, samples });
  const events = new EventMetrics(name, outbox.events, buckets, clock);
  const { publish, handler } = events;
  const wrapper = timed(clock, publish.observe.bind(publish), handler.observe.bind(handler));
  runtime?.wrappers?.push(wrapper); // of the relays that start later
  const asked = questions(outbox, runtime, options, clock);
  return () => {
    leave();
    events.close();
    const at = runtime?.wrappers?.indexOf(wrapper) ?? -1;
    if (at >= 0) runtime?.wrappers?.splice(at, 1);
  };
}

type Questions = ReturnType<typeof questions>;

/** What is asked of the database; `undefined`: nobody asks. */
function questions(
  outbox: ObservedOutbox,
  runtime: Runtime,
  { countEvery, countTimeout: timeout }: ResolvedPrometheusOptions,
  clock: Clock,
) {
  const polled = <T>(least: number, question: (() => Promise<T>) | undefined): Polled<T> | undefined =>
    countEvery === null || question === undefined
      ? undefined
      : new Polled(question, clock, { every: Math.max(countEvery, least), timeout });
  const diagnose = runtime?.store.diagnose;
  return {
    counts: polled(0, () => outbox.stats()),
    tables: polled(SIZES_EVERY, diagnose && (async () => (await diagnose.ask('tables')) ?? [])),
    snapshot: polled(SIZES_EVERY, diagnose && (async () => (await diagnose.ask('oldestSnapshot')) ?? UNKNOWN)),
    schema: polled(SCHEMA_EVERY, diagnose && runtime && (() => schemaDiffers(runtime))),
  };
}

/** Whether the tables are other ones than this version needs: the comparison of a start. A replica says nothing about them. */
const schemaDiffers = ({ options, store }: OutboxService['runtime']): Promise<boolean> =>
  store.setup.check(options).then(
    () => false,
    (error: unknown) => {
      if (error instanceof OutboxConfigurationError && error.code.startsWith('SCHEMA_')) return true;
      throw error;
    },
  );

/** Never rejects: a scrape without an answer of the database has the rest. */
async function look(
  outbox: ObservedOutbox,
  name: string,
  events: EventMetrics,
  { counts, tables, snapshot, schema }: Questions,
  clock: Clock,
): Promise<Scrape> {
  const scrape = new Scrape(name);
  const [health, counted, sized, held, differs] = await Promise.all([
    outbox.health().catch(() => undefined),
    counts?.read(),
    tables?.read(),
    snapshot?.read(),
    schema?.read(),
  ]);
  if (health !== undefined) healthLines(scrape, health, clock.wall());
  if (counted !== undefined) {
    countLines(scrape, counted.answer);
    scrape.set(COUNTING.countsAge, counted.age / 1_000);
  }
  if (sized !== undefined) tableLines(scrape, sized.answer);
  if (differs !== undefined) scrape.set(TABLE_GAUGES.schemaDiffers, Number(differs.answer));
  if (held !== undefined) snapshotLines(scrape, held.answer);
  scrape.set(EVENT_GAUGES.snapshotHeldFor, events.snapshotHeldFor);
  const failures = [counts, tables, snapshot].reduce((sum, asked) => sum + (asked?.failures ?? 0), 0);
  scrape.set(COUNTING.countFailures, failures);
  for (const each of events.all()) scrape.lines.set(each.metric.name, each.samples());
  return scrape;
}

/** Milliseconds: sizes change slowly, and a schema seldom. */
const SIZES_EVERY = 60_000;
const SCHEMA_EVERY = 5_000;
