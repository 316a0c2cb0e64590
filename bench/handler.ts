import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import type pg from 'pg';
import type { DataSource } from 'typeorm';
import { inProcess, OnOutboxEvent, OutboxDispatcher, type TransportOption } from '../lib/index.js';
import { OrderPlaced, startApplication } from './support/app.js';
import { argument, Samples } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { connect, createTables, drain, NoopTransport, type Drained } from './support/relay.js';
import { empty, fillReady } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * What a handler in the process costs that does nothing, against a transport that does nothing: the drain of a backlog in real
 * Nest applications.
 *   npm run bench -- handler [rows=100000] [repeats=5]
 */
const rows = argument(0, 'rows', 100_000);
const repeats = argument(1, 'repeats', 5);
const KEYS = 10_000;
let handled = 0;

@Injectable()
class Warehouse {
  @OnOutboxEvent(OrderPlaced)
  async reserve(event: OrderPlaced): Promise<void> {
    if (event instanceof OrderPlaced) handled += 1;
  }
}

async function measure(closing: Closing, url: string, dataSource: DataSource, admin: pg.Client, to: TransportOption) {
  await empty(admin);
  await fillReady(admin, { rows, keys: KEYS });
  const options = { transports: { default: to }, relay: 'manual' as const };
  const app = await startApplication(closing, url, options, undefined, to instanceof NoopTransport ? [] : [Warehouse]);
  let drained: Drained;
  try {
    drained = await drain(dataSource, { dispatcher: app.get(OutboxDispatcher) }, rows);
    await app.get(OutboxDispatcher).stop();
  } finally {
    await app.close();
  }
  return { rowsPerSecond: (drained.rows / drained.ms) * 1_000, node: drained.cpu / drained.rows };
}

bench('handler', async (closing) => {
  const server = await startPostgres(closing);
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin = await adminClient(closing, server.url);
  const samples = new Samples();
  const ofTransport = () => measure(closing, server.url, dataSource, admin, new NoopTransport());
  const ofHandler = () => measure(closing, server.url, dataSource, admin, inProcess());
  for (const one of [ofTransport, ofHandler]) await one(); // everything is compiled and warm
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    handled = 0;
    const [transport, handler] = [await ofTransport(), await ofHandler()];
    if (handled !== rows) throw new Error(`${handled} of ${rows} messages were handled.`);
    samples.add({
      rowsPerSecond: handler.rowsPerSecond,
      nodeMicros: handler.node,
      transportNodeMicros: transport.node,
      addedMicros: handler.node - transport.node,
    });
  }
  return { rows, repeats, ...samples.medians(), addedMicrosRange: samples.range('addedMicros') };
});
