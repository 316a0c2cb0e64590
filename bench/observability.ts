import { context, propagation, trace } from '@opentelemetry/api';
import { BatchSpanProcessor, NodeTracerProvider, type SpanExporter } from '@opentelemetry/sdk-trace-node';
import { Registry } from 'prom-client';
import type pg from 'pg';
import type { DataSource } from 'typeorm';
import { OutboxDispatcher, OutboxService } from '../lib/index.js';
import { OutboxTracing } from '../lib/otel/index.js';
import { OutboxPrometheus } from '../lib/prometheus/index.js';
import { startApplication } from './support/app.js';
import { argument, Samples } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { connect, createTables, drain, NoopTransport, type Drained } from './support/relay.js';
import { empty, fillReady } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * What metrics and tracing add to the drain of a backlog with a transport that costs nothing, in real Nest applications: with
 * nothing, with Prometheus, with an SDK of OpenTelemetry and messages of traces of which 1 % are sampled, and with these and tracing.
 *   npm run bench -- observability [rows=200000] [repeats=5]
 */
const rows = argument(0, 'rows', 200_000);
const repeats = argument(1, 'repeats', 5);
const KEYS = 10_000;
/** As `enqueue` writes them; one in a hundred is sampled. */
const TRACED = `'{"traceparent":"00-' || md5(g::text) || '-' || substr(md5(g::text), 1, 16) || case when g % 100 = 0 then '-01' else '-00' end || '"}'`;
/** Milliseconds between scrapes: fifteen times as many as usual. */
const SCRAPE_EVERY = 1_000;

type Observed = (outbox: OutboxService) => Promise<() => Promise<unknown>>;

/** What each variant puts beside the relay; it returns how to take it away. */
const VARIANTS: Readonly<Record<string, { readonly headers?: string; readonly observe: Observed }>> = {
  bare: { observe: async () => async () => undefined },
  prometheus: { observe: withPrometheus },
  sdk: { headers: TRACED, observe: withSdk },
  tracing: { headers: TRACED, observe: withTracing },
};

async function withPrometheus(outbox: OutboxService): Promise<() => Promise<unknown>> {
  const registry = new Registry();
  const metrics = new OutboxPrometheus(outbox, { registry });
  const timer = setInterval(() => void registry.metrics(), SCRAPE_EVERY);
  return async () => {
    clearInterval(timer);
    const text = await registry.metrics();
    const [, published] = /^outbox_messages_published_total\{.*\} (\d+)$/m.exec(text) ?? [];
    if (Number(published) !== rows) throw new Error(`Prometheus counted ${published} of ${rows} messages.`);
    metrics.close();
  };
}

/** An SDK in the process costs by itself: what is asynchronous has a context from then on. */
async function withSdk(_: OutboxService, expected = 0): Promise<() => Promise<unknown>> {
  let spans = 0;
  const exporter: SpanExporter = {
    export(batch, done) {
      spans += batch.length;
      done({ code: 0 });
    },
    shutdown: () => Promise.resolve(),
  };
  const processor = new BatchSpanProcessor(exporter, { maxQueueSize: rows, scheduledDelayMillis: 500 });
  const provider = new NodeTracerProvider({ spanProcessors: [processor] });
  provider.register();
  return async () => {
    await provider.shutdown();
    for (const api of [trace, context, propagation]) api.disable();
    if (spans !== expected) throw new Error(`There are ${spans} spans of ${rows} messages.`);
  };
}

async function withTracing(outbox: OutboxService): Promise<() => Promise<unknown>> {
  await OutboxTracing.start(outbox);
  return withSdk(outbox, Math.floor(rows / 100));
}

async function measure(closing: Closing, url: string, dataSource: DataSource, admin: pg.Client, variant: string) {
  const { headers, observe } = VARIANTS[variant]!;
  await empty(admin);
  await fillReady(admin, { rows, keys: KEYS, ...(headers !== undefined && { headers }) });
  const options = { transports: { default: new NoopTransport() }, relay: 'manual' as const };
  const app = await startApplication(closing, url, options);
  const end = await observe(app.get(OutboxService));
  let drained: Drained;
  try {
    drained = await drain(dataSource, { dispatcher: app.get(OutboxDispatcher) }, rows);
    await app.get(OutboxDispatcher).stop();
  } finally {
    await end();
    await app.close();
  }
  return { wall: (drained.ms * 1_000) / drained.rows, node: drained.cpu / drained.rows };
}

bench('observability', async (closing) => {
  const server = await startPostgres(closing);
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin = await adminClient(closing, server.url);
  const samples = new Samples();
  const names = Object.keys(VARIANTS);
  for (const name of names) await measure(closing, server.url, dataSource, admin, name); // everything is compiled and warm
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const found: Record<string, { wall: number; node: number }> = {};
    // Each begins once: what drifts with time falls on all of them.
    for (let at = 0; at < names.length; at += 1) {
      const name = names[(repeat + at) % names.length] as string;
      found[name] = await measure(closing, server.url, dataSource, admin, name);
    }
    const { bare, sdk, tracing } = found as Record<'bare' | 'sdk' | 'tracing', { wall: number; node: number }>;
    samples.add({
      rowsPerSecond: 1e6 / bare.wall,
      nodeMicros: bare.node,
      ...Object.fromEntries(
        names.slice(1).flatMap((name) => [
          [`${name}TimeRatio`, found[name]!.wall / bare.wall],
          [`${name}NodeRatio`, found[name]!.node / bare.node],
        ]),
      ),
      tracingToSdkTimeRatio: tracing.wall / sdk.wall,
      tracingToSdkNodeRatio: tracing.node / sdk.node,
    });
  }
  const ratios = [...names.slice(1), 'tracingToSdk'].flatMap((name) => [`${name}TimeRatio`, `${name}NodeRatio`]);
  return {
    rows,
    repeats,
    ...samples.medians(),
    ...Object.fromEntries(ratios.map((name) => [`${name}Range`, samples.range(name)])),
  };
});
