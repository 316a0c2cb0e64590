import type { OnApplicationShutdown } from '@nestjs/common';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { systemClock, type Clock } from '../time/clock.js';
import type { TransportWrapper } from '../options/transport-wrapper.js';
import { COUNTING, EVENT_GAUGES, type Metric } from './catalogue.js';
import { Counts } from './counts.js';
import { countLines, healthLines, type Lines } from './gauges.js';
import { resolvePrometheusOptions, type OutboxPrometheusOptions } from './options.js';
import { register } from './registered.js';
import { labelsOf } from './samples.js';
import { Tallies } from './tallies.js';
import { timed } from './timed.js';

/** What is asked of the `OutboxService`. */
export type ObservedOutbox = Pick<OutboxService, 'events' | 'health' | 'stats'>;

/**
 * Shows one outbox in a registry of prom-client, until the application shuts down. As a provider:
 * `{ provide: OutboxPrometheus, inject: [OutboxService], useFactory: (outbox) => new OutboxPrometheus(outbox, { registry: register }) }`
 */
export class OutboxPrometheus implements OnApplicationShutdown {
  /** @internal */ readonly name: string;
  /** @internal */ readonly tallies: Tallies;
  /** @internal */ readonly counts: Counts | undefined;
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
    this.leave = register(registry, { name, samples: (metric) => this.samples(metric) });
    this.tallies = new Tallies(name, outbox.events, buckets, clock);
    const { publish, handler } = this.tallies;
    this.wrapper = timed(clock, publish.observe.bind(publish), handler.observe.bind(handler));
    this.wrappers?.push(this.wrapper);
    const settings = { every: countEvery ?? Infinity, timeout: countTimeout };
    this.counts = countEvery === null ? undefined : new Counts(() => outbox.stats(), clock, settings);
  }

  /** Ends listening, and takes what it shows out of the registry. */
  close(): void {
    this.leave();
    this.tallies.close();
    const at = this.wrappers?.indexOf(this.wrapper) ?? -1;
    if (at >= 0) this.wrappers?.splice(at, 1);
  }

  onApplicationShutdown(): void {
    this.close();
  }

  /** Of the relays that start later. @internal */
  get wrappers(): TransportWrapper[] | undefined {
    return (this.outbox as Partial<Pick<OutboxService, 'runtime'>>).runtime?.wrappers;
  }

  /** All metrics of one scrape share one look. @internal */
  async samples({ name }: Metric) {
    const lines = await (this.looking ??= this.look().finally(() => (this.looking = undefined)));
    return lines.get(name) ?? [];
  }

  /** Never rejects: a scrape without an answer of the database has the rest. @internal */
  async look(): Promise<Lines> {
    const lines: Lines = new Map();
    const [health, counted] = await Promise.all([this.outbox.health().catch(() => undefined), this.counts?.read()]);
    if (health !== undefined) healthLines(lines, this.name, health);
    if (counted !== undefined) {
      countLines(lines, this.name, counted.stats);
      this.add(lines, COUNTING.countsAge, counted.age / 1_000);
    }
    this.add(lines, EVENT_GAUGES.snapshotHeldFor, this.tallies.snapshotHeldFor);
    this.add(lines, COUNTING.countFailures, this.counts?.failures ?? 0);
    for (const each of this.tallies.all()) lines.set(each.metric.name, each.samples());
    return lines;
  }

  /** @internal */ add(lines: Lines, metric: Metric, value: number): void {
    lines.set(metric.name, [{ labels: labelsOf(metric, this.name, []), value }]);
  }
}
