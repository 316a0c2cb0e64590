import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { AppModule, type Settings } from './app.module.js';
import { Carriers } from './carriers.js';
import { ParcelsService } from './parcels.service.js';

const PATIENCE = 120_000;

/** @returns the exit code: 0 if every parcel was told, none of them twice to the same carrier */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const id = randomBytes(4).toString('hex');
  const settings: Settings = {
    database: process.env['DATABASE_URL'] ?? '',
    schema: `parcels_${id}`,
    broker: process.env['RABBITMQ_URL'] ?? '',
    exchange: `parcels-${id}`,
  };
  const database = await new DataSource({ type: 'postgres', url: settings.database }).initialize();
  await database.query(`create schema ${settings.schema}`);
  const carriers = await Carriers.connect(settings.broker, settings.exchange);
  await carriers.open('fr');
  const app = await NestFactory.createApplicationContext(AppModule.with(settings), { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  try {
    return await Promise.race([
      business(app.get(ParcelsService), app.get(OutboxService), carriers),
      interrupted(interruption),
    ]);
  } finally {
    await app.close();
    await carriers.close();
    await database.query(`drop schema ${settings.schema} cascade`);
    await database.destroy();
  }
}

/** Norway has no carrier when its parcel is sent. */
async function business(parcels: ParcelsService, outbox: OutboxService, carriers: Carriers): Promise<number> {
  await parcels.send('P-1', 'fr', { express: true });
  await parcels.send('P-2', 'fr', { delay: '1s' });
  const returned = outbox.events.once('retried');
  await parcels.send('P-3', 'no');
  console.log(`nobody delivers to Norway: ${(await returned).error}`);
  await carriers.open('no');
  console.log('somebody does now');
  for (const until = Date.now() + PATIENCE; carriers.seen.length < 3 && Date.now() < until;) await delay(20);
  for (const { queue, parcelId, routingKey, properties } of carriers.seen) {
    const { messageId, type, priority } = properties;
    console.log(`${queue}  ${parcelId}  ${routingKey}  type ${type}  priority ${priority ?? 0}  ${messageId}`);
  }
  const told = carriers.seen.map(({ parcelId }) => parcelId).sort();
  const good = told.join() === 'P-1,P-2,P-3';
  console.log(good ? 'OK: 3 parcels told' : `FAILED: ${told.join()}`);
  return good ? 0 : 1;
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
