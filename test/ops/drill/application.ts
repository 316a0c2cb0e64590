/** The files of the application of the drill, as they are when it is built. It is started twice: to enqueue, and to relay. */
export const FILES: Readonly<Record<string, string>> = {
  'package.json': '{ "type": "module" }',
  'app.module.js': `import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { OutboxModule, OutboxService } from 'nestjs-outbox';
import { OutboxPrometheus } from 'nestjs-outbox/prometheus';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { Registry } from 'prom-client';

const { DATABASE_URL: url, BROKER_URL, ROLE } = process.env;
export const registry = new Registry();
export class AppModule {}
Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'postgres', url, retryAttempts: 0 }),
    OutboxModule.forRoot({
      transports: { default: rabbitmq({ url: BROKER_URL, exchange: '' }) },
      relay: ROLE === 'relay',
      onPublished: 'archive',
      lease: '15s',
      publishTimeout: '3s',
      pollInterval: '200ms',
      retry: { initial: '100ms', max: '500ms', maxAttempts: 3 },
    }),
  ],
  providers: [
    {
      provide: OutboxPrometheus,
      inject: [OutboxService],
      useFactory: (outbox) => new OutboxPrometheus(outbox, { registry, countEvery: '1s', countTimeout: '500ms' }),
    },
  ],
})(AppModule);
`,
  'main.js': `import { createServer } from 'node:http';
import { NestFactory } from '@nestjs/core';
import { OutboxService } from 'nestjs-outbox';
import { AppModule, registry } from './app.module.js';

const { PORT, ROLE } = process.env;
const app = await NestFactory.createApplicationContext(AppModule, { abortOnError: false });
app.enableShutdownHooks();
const outbox = app.get(OutboxService);
const pages = {
  '/metrics': () => registry.metrics(),
  '/health': async () => JSON.stringify(await outbox.health()),
  '/messages': async (request) => {
    let body = '';
    for await (const piece of request) body += piece;
    return JSON.stringify(await outbox.enqueueOutsideTransaction(JSON.parse(body)));
  },
};
createServer((request, response) =>
  pages[request.url](request).then(
    (text) => response.end(text),
    (error) => response.writeHead(500).end(String(error)),
  ),
).listen(Number(PORT), '127.0.0.1');
// Business goes on, whatever breaks.
const order = { type: 'order.placed', topic: 'orders', payload: {} };
if (ROLE !== 'relay') setInterval(() => outbox.enqueueOutsideTransaction(order).catch(() => {}), 100);
`,
  // The clock of a machine, wrong by as many milliseconds as the file says.
  'clock.js': `import { readFileSync } from 'node:fs';

const [RealDate, now] = [Date, Date.now.bind(Date)];
let [wrongBy, readAt] = [0, -Infinity];
function ahead() {
  if (performance.now() - readAt > 100) {
    readAt = performance.now();
    wrongBy = Number(readFileSync(process.env.CLOCK, 'utf8'));
  }
  return wrongBy;
}
globalThis.Date = class Date extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [now() + ahead()] : args));
  }
  static now() {
    return now() + ahead();
  }
};
`,
};
