import type { OnApplicationShutdown } from '@nestjs/common';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { systemClock, type Clock } from '../time/clock.js';
import type { TransportWrapper } from '../options/transport-wrapper.js';
import { COUNTING, EVENT_GAUGES, type Metric } from './catalogue.js';
import type { OutboxStats } from '../observe/stats.js';
import {
  countLines,
  healthLines,
  schemaLines,
  snapshotLines,
  tableLines,
  type Lines,
  type SnapshotAge,
  type TableSize,
} from './gauges.js';
import { resolvePrometheusOptions, type OutboxPrometheusOptions } from './options.js';
import { Polled } from './polled.js';
import { register } from './registered.js';
import { labelsOf } from './samples.js';
import { EventMetrics } from './event-metrics.js';
import { timed } from './call-durations.js';
import { schemaQuestion } from './schema-question.js';

const UNKNOWN: SnapshotAge = { age: null, transactions: null };

/** The methods that it uses of the `OutboxService`. */
export type ObservedOutbox = Pick<OutboxService, 'events' | 'health' | 'stats'>;

/**
 * Shows one outbox in a registry of prom-client, until the application shuts down. As a provider:
 * `{ provide: OutboxPrometheus, inject: [OutboxService], useFactory: (outbox) => new OutboxPrometheus(outbox, { registry: register }) }`
 */
export class OutboxPrometheus implements OnApplicationShutdown {
  /** @internal */ readonly name: string;
  /** @internal */ readonly eventMetrics: EventMetrics;
  /** @internal */ readonly counts: Polled<OutboxStats> | undefined;
  /** @internal */ readonly tables: Polled<readonly TableSize[]> | undefined;
  /** @internal */ readonly schema: Polled<boolean> | undefined;
  /** @internal */ readonly snapshot: Polled<SnapshotAge> | undefined;
  /** @internal */ readonly leave: () => void;
  /** @internal */ readonly wrapper: TransportWrapper;
  /** @internal */ looking: Promise<Lines> | undefined;

  constructor(outbox: ObservedOutbox, options: OutboxPrometheusOptions);
  /** @internal */
  constructor(outbox: ObservedOutbox, options: OutboxPrometheusOptions, clock: Clock);
  constructor(
    /** @internal */ readonly outbox: ObservedOutbox,
    options: OutboxPrometheusOptions,
    /** @internal */ readonly clock: Clock = systemClock,
  ) {
    const { registry, name, buckets, countEvery, countTimeout } = resolvePrometheusOptions(options);
    this.name = name;
    this.leave = register(registry, {
      name,
      outbox,
      ownName: this.runtime?.options.name,
      samples: (metric) => this.samples(metric),
    });
    this.eventMetrics = new EventMetrics(name, outbox.events, buckets, clock);
    const { publish, handler } = this.eventMetrics;
    this.wrapper = timed(clock, publish.observe.bind(publish), handler.observe.bind(handler));
    this.wrappers?.push(this.wrapper);
    const settings = { every: countEvery ?? Infinity, timeout: countTimeout };
    this.counts = countEvery === null ? undefined : new Polled(() => outbox.stats(), clock, settings);
    const sizes = { every: Math.max(settings.every, SIZES_EVERY), timeout: countTimeout };
    const diagnose = countEvery === null ? undefined : this.runtime?.store.diagnose;
    if (diagnose !== undefined) {
      this.tables = new Polled(async () => (await diagnose.ask('tables')) ?? [], clock, sizes);
      this.snapshot = new Polled(async () => (await diagnose.ask('oldestSnapshot')) ?? UNKNOWN, clock, sizes);
    }
    const differs = schemaQuestion(this.runtime);
    const checks = { every: Math.max(settings.every, SCHEMA_EVERY), timeout: countTimeout };
    if (diagnose !== undefined && differs !== undefined) this.schema = new Polled(differs, clock, checks);
  }

  /** Ends listening, and takes what it shows out of the registry. */
  close(): void {
    this.leave();
    this.eventMetrics.close();
    const at = this.wrappers?.indexOf(this.wrapper) ?? -1;
    if (at >= 0) this.wrappers?.splice(at, 1);
  }

  onApplicationShutdown(): void {
    this.close();
  }

  /** @internal */ get runtime(): OutboxService['runtime'] | undefined {
    return (this.outbox as Partial<Pick<OutboxService, 'runtime'>>).runtime;
  }

  /** Of the relays that start later. @internal */
  get wrappers(): TransportWrapper[] | undefined {
    return this.runtime?.wrappers;
  }

  /** All metrics of one scrape share one look. @internal */
  async samples({ name }: Metric) {
    const lines = await (this.looking ??= this.look().finally(() => (this.looking = undefined)));
    return lines.get(name) ?? [];
  }

  /** Never rejects: a scrape without an answer of the database has the rest. @internal */
  async look(): Promise<Lines> {
    const lines: Lines = new Map();
    const [health, counted, sized, snapshot, differs] = await Promise.all([
      this.outbox.health().catch(() => undefined),
      this.counts?.read(),
      this.tables?.read(),
      this.snapshot?.read(),
      this.schema?.read(),
    ]);
    if (health !== undefined) healthLines(lines, this.name, health, this.clock.wall());
    if (counted !== undefined) {
      countLines(lines, this.name, counted.answer);
      this.add(lines, COUNTING.countsAge, counted.age / 1_000);
    }
    if (sized !== undefined) tableLines(lines, this.name, sized.answer);
    if (differs !== undefined) schemaLines(lines, this.name, differs.answer);
    if (snapshot !== undefined) snapshotLines(lines, this.name, snapshot.answer);
    this.add(lines, EVENT_GAUGES.snapshotHeldFor, this.eventMetrics.snapshotHeldFor);
    this.add(lines, COUNTING.countFailures, this.failures());
    for (const each of this.eventMetrics.all()) lines.set(each.metric.name, each.samples());
    return lines;
  }

  /** @internal */ failures(): number {
    return [this.counts, this.tables, this.snapshot].reduce((sum, asked) => sum + (asked?.failures ?? 0), 0);
  }

  /** @internal */ add(lines: Lines, metric: Metric, value: number): void {
    lines.set(metric.name, [{ labels: labelsOf(metric, this.name, []), value }]);
  }
}

/** Milliseconds: sizes change slowly, and a schema seldom. */
const SIZES_EVERY = 60_000;
const SCHEMA_EVERY = 5_000;
