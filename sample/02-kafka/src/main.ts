import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { AccountsService } from './accounts.service.js';
import { AppModule, type Settings } from './app.module.js';
import { Audit } from './audit.js';

const PATIENCE = 120_000;

/** @returns the exit code: 0 if the audit saw exactly what was committed, in order */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const id = randomBytes(4).toString('hex');
  const settings: Settings = {
    database: process.env['DATABASE_URL'] ?? '',
    schema: `bank_${id}`,
    brokers: (process.env['KAFKA_BROKERS'] ?? '').split(','),
    topicPrefix: `bank-${id}.`,
  };
  const database = await new DataSource({ type: 'postgres', url: settings.database }).initialize();
  await database.query(`create schema ${settings.schema}`);
  const audit = new Audit(settings.brokers, `${settings.topicPrefix}accounts`);
  await audit.start();
  const app = await NestFactory.createApplicationContext(AppModule.with(settings), { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  try {
    const business = transactions(app.get(AccountsService)).then(() => report(audit));
    return await Promise.race([business, interrupted(interruption)]);
  } finally {
    await app.close();
    await audit.stop();
    await database.query(`drop schema ${settings.schema} cascade`);
    await database.destroy();
  }
}

async function transactions(accounts: AccountsService): Promise<void> {
  await accounts.open('ada', 100);
  await accounts.open('ben', 50);
  await accounts.transfer('ada', 'ben', 30);
  await accounts.transfer('ben', 'ada', 500).catch((error: Error) => console.log(`rolled back: ${error.message}`));
  await accounts.transfer('ben', 'ada', 80);
  await accounts.close('ben');
}

/** Of one key, in this order; between keys Kafka promises none. */
const EXPECTED = {
  ada: ['100', '70', '150'],
  ben: ['50', '80', '0', 'tombstone'],
};

async function report(audit: Audit): Promise<number> {
  const expected = Object.values(EXPECTED).flat().length;
  for (const until = Date.now() + PATIENCE; audit.seen.length < expected && Date.now() < until;) await delay(20);
  for (const { partition, key, type, branch, value } of audit.seen) {
    console.log(`partition ${partition}  ${key}  ${type}  x-branch ${branch ?? '-'}  ${JSON.stringify(value)}`);
  }
  const told = Object.keys(EXPECTED).map((account) => audit.seen.filter(({ key }) => key === account).map(inShort));
  const good = JSON.stringify(told) === JSON.stringify(Object.values(EXPECTED));
  console.log(good ? `OK: ${audit.seen.length} messages, in order per account` : 'FAILED');
  return good ? 0 : 1;
}

function inShort({ value }: { readonly value: unknown }): string {
  return value === null ? 'tombstone' : String((value as { balance: number }).balance);
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
