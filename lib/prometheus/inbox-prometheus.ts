import type { OnApplicationShutdown } from '@nestjs/common';
import { systemClock } from '../time/clock.js';
import { INBOX, INBOX_METRICS, type Metric } from './catalogue.js';
import { Scrape } from './gauges.js';
import { resolvePrometheusOptions, type OutboxPrometheusOptions } from './options.js';
import { Polled } from './polled.js';
import { register } from './registered.js';

/** What it uses of the `InboxService`. */
export interface ObservedInbox {
  readonly name: string;
  counts(): readonly { readonly consumer: string; readonly retried: number }[];
  age(): Promise<Readonly<Record<'oldest' | 'overdue', number>>>;
}

/**
 * Shows one inbox in a registry of prom-client, by its name, until the application shuts down. It needs no outbox. As a provider:
 * `{ provide: InboxPrometheus, inject: [InboxService], useFactory: (inbox) => new InboxPrometheus(inbox, { registry: register }) }`
 */
export class InboxPrometheus implements OnApplicationShutdown {
  /** Takes what it shows out of the registry. */
  readonly close: () => void;

  constructor(inbox: ObservedInbox, options: Pick<OutboxPrometheusOptions, 'registry'>) {
    const { registry, countEvery, countTimeout: timeout } = resolvePrometheusOptions(options);
    const age = new Polled(() => inbox.age(), systemClock, { every: Number(countEvery), timeout });
    const samples = async (metric: Metric) => (await look(inbox, age)).lines.get(metric.name) ?? [];
    this.close = register(registry, INBOX_METRICS, { name: inbox.name, subject: inbox, ownName: inbox.name, samples });
  }

  onApplicationShutdown(): void {
    this.close();
  }
}

/** Never rejects: a scrape without an answer of the database has the rest. */
async function look(inbox: ObservedInbox, age: Polled<Record<'oldest' | 'overdue', number>>): Promise<Scrape> {
  const scrape = new Scrape(inbox.name);
  for (const { consumer, retried, ...results } of inbox.counts()) {
    for (const [result, count] of Object.entries<number>(results)) scrape.set(INBOX.messages, count, consumer, result);
    scrape.set(INBOX.retries, retried, consumer);
  }
  const asked = await age.read();
  if (asked !== undefined) {
    scrape.set(INBOX.oldestAge, asked.answer.oldest / 1_000);
    scrape.set(INBOX.overdue, asked.answer.overdue / 1_000);
  }
  return scrape;
}
