import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { AppModule, Ledger } from './app.module.js';
import { SCHEMA_ID } from './schema-serializer.js';
import { OldOrderPlaced, OldParcelSent, OrderPlaced, ParcelSent } from './shop.events.js';
import { receive, Wire } from './wire.js';

const PATIENCE = 120_000;
const EVENTS = [
  new OldOrderPlaced('order-1', 9.5),
  new OrderPlaced('order-2', 20, 'CHF'),
  new OldParcelSent('order-1', 300),
  new ParcelSent('order-2', 1_200, ['Basel', 'Bern']),
];
/** As the newest schema of each has it, whoever wrote it. */
const EXPECTED = [
  { orderId: 'order-1', total: 9.5, currency: 'EUR' },
  { orderId: 'order-2', total: 20, currency: 'CHF' },
  { orderId: 'order-1', grams: 300, stops: [] },
  { orderId: 'order-2', grams: 1_200, stops: ['Basel', 'Bern'] },
];

/** @returns the exit code: 0 if both sides read each event, also those of an older schema */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const url = process.env['DATABASE_URL'] ?? '';
  const schema = `shop_${randomBytes(4).toString('hex')}`;
  const database = await new DataSource({ type: 'postgres', url }).initialize();
  await database.query(`create schema ${schema}`);
  const app = await NestFactory.createApplicationContext(AppModule.with(url, schema), { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  try {
    return await Promise.race([business(app), interrupted(interruption)]);
  } finally {
    await app.close();
    await database.query(`drop schema ${schema} cascade`);
    await database.destroy();
  }
}

async function business(app: INestApplicationContext): Promise<number> {
  const outbox = app.get(OutboxService);
  await app.get(DataSource).transaction((manager) => outbox.enqueue(EVENTS, { manager }));
  const byHand = { type: 'order.placed', version: 2, payload: EVENTS[1], headers: { [SCHEMA_ID]: '101' } };
  await outbox.enqueueOutsideTransaction(byHand).catch((error: Error) => console.log(`refused: ${error.message}`));
  const [{ records }, { entries }] = [app.get(Wire), app.get(Ledger)];
  const isDone = (): boolean => records.length >= EVENTS.length && entries.length >= EVENTS.length;
  for (const until = Date.now() + PATIENCE; !isDone() && Date.now() < until;) await delay(20);
  const received = records.map((record) => {
    const value = receive(record);
    const sizes = `${record.bytes.length} bytes, as JSON ${JSON.stringify(value).length}`;
    console.log(`schema ${String(record.headers[SCHEMA_ID])}  ${sizes}  ${JSON.stringify(value)}`);
    return value;
  });
  const isGood = [received, entries].every(isExpected);
  console.log(isGood ? `OK: both sides have ${EVENTS.length} events, two of them of an older schema` : 'FAILED');
  return isGood ? 0 : 1;
}

/** Messages of two keys come in any order. */
function isExpected(all: readonly unknown[]): boolean {
  const isThere = (one: object): boolean => all.some((value) => isDeepStrictEqual(value, one));
  return all.length === EXPECTED.length && EXPECTED.every(isThere);
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
