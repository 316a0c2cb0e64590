/**
 * A Nest application in a process of its own, whose amqplib the instrumentation of OpenTelemetry has patched before anybody loaded
 * it: what it publishes gets the context that is active then.
 */
import 'reflect-metadata';
import { createRequire } from 'node:module';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { AmqplibInstrumentation } from '@opentelemetry/instrumentation-amqplib';
import { trace, type Span } from '@opentelemetry/api';
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import type { InstrumentedSettings } from './instrumented.spec.js';

const settings = JSON.parse(process.env['INSTRUMENTED'] as string) as InstrumentedSettings;
new NodeTracerProvider().register();
registerInstrumentations({ instrumentations: [new AmqplibInstrumentation()] });
createRequire(import.meta.url)('amqplib');

const { NestFactory } = await import('@nestjs/core');
const { DataSource } = await import('typeorm');
const { OutboxModule, OutboxService } = await import('../../lib/index.js');
const { rabbitmq } = await import('../../lib/transports/rabbitmq/index.js');
const { databaseOptions } = await import('./database-options.js');

const dataSource = await new DataSource(databaseOptions(settings.url)).initialize();
const transports = { default: rabbitmq({ url: settings.broker, routingKey: () => settings.queue }) };
const root = OutboxModule.forRoot({ dataSource, transports, logLevel: 'silent', database: { setup: 'create' } });
const app = await NestFactory.createApplicationContext(root, { logger: false });
const outbox = app.get(OutboxService);

/** Every fourth one brings no context. */
const request = async (n: number, span: Span): Promise<readonly [string, string | null, string]> => {
  const { traceId, spanId } = span.spanContext();
  const traceparent = n % 4 === 3 ? null : `00-${traceId}-${spanId}-01`;
  const headers = traceparent === null ? {} : { traceparent };
  const id = await outbox.enqueueOutsideTransaction({ type: 'a', key: `k${n}`, payload: n, headers });
  span.end();
  return [id, traceparent, traceId];
};
const sent = await Promise.all(
  Array.from({ length: settings.count }, (_, n) =>
    trace.getTracer('requests').startActiveSpan(`request ${n}`, (span) => request(n, span)),
  ),
);
process.send?.({ sent });
process.once(
  'message',
  () =>
    void app
      .close()
      .then(() => dataSource.destroy())
      .then(() => process.disconnect()),
);
