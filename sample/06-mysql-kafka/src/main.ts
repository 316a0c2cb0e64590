import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { createConnection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import { AppModule, type Settings } from './app.module.js';
import { Ledger } from './ledger.js';
import { StockService } from './stock.service.js';

const PATIENCE = 120_000;
/** Ten of each item, and more buyers than that, all at once. */
const STOCK = { chair: 10, lamp: 10, table: 10 };
const BUYERS = 12;

/** @returns the exit code: 0 if the ledger saw each reservation that was committed, in order per item, and no other one */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const server = new URL(process.env['MYSQL_URL'] ?? '');
  const name = `stock_${randomBytes(4).toString('hex')}`;
  const database = new URL(server);
  database.pathname = name;
  const settings: Settings = {
    database,
    brokers: (process.env['KAFKA_BROKERS'] ?? '').split(','),
    topicPrefix: `${name}.`,
  };
  const admin = await createConnection({ uri: server.href.replace('mariadb:', 'mysql:') });
  await admin.query(`create database ${name}`);
  const ledger = new Ledger(settings.brokers, `${settings.topicPrefix}stock`);
  try {
    await ledger.start();
    return await Promise.race([business(settings, ledger), interrupted(interruption)]);
  } finally {
    await ledger.stop();
    await admin.query(`drop database ${name}`);
    await admin.end();
  }
}

async function business(settings: Settings, ledger: Ledger): Promise<number> {
  const app = await NestFactory.createApplicationContext(AppModule.with(settings), { logger: ['error', 'warn'] });
  try {
    const stock = app.get(StockService);
    for (const [item, count] of Object.entries(STOCK)) await stock.receive(item, count);
    const wishes = Object.keys(STOCK).flatMap((item) =>
      Array.from({ length: BUYERS }, async (_, n) => stock.reserve(item, `buyer ${n}`)),
    );
    const refused = (await Promise.allSettled(wishes)).filter(({ status }) => status === 'rejected').length;
    console.log(`${wishes.length} wishes at once, ${refused} of them rolled back: sold out`);
    const isGood = await inOrder(ledger);
    const archive = await archived(app.get(DataSource), ledger.count);
    console.log(`${archive} messages in the archive`);
    return isGood && archive === ledger.count ? 0 : 1;
  } finally {
    await app.close();
  }
}

async function inOrder(ledger: Ledger): Promise<boolean> {
  const expected = Object.values(STOCK).reduce((sum, count) => sum + count, 0);
  for (const until = Date.now() + PATIENCE; ledger.count < expected && Date.now() < until;) await delay(20);
  for (const [item, left] of ledger.left) console.log(`${item}  left: ${left.join(' ')}`);
  const isGood = Object.entries(STOCK).every(([item, count]) => {
    const falling = Array.from({ length: count }, (_, n) => count - 1 - n);
    return String(ledger.left.get(item)) === String(falling);
  });
  console.log(isGood && ledger.count === expected ? `OK: ${ledger.count} messages, in order per item` : 'FAILED');
  return isGood && ledger.count === expected;
}

/** A message is archived once its confirm is written down, a moment after it has arrived. */
async function archived(database: DataSource, expected: number): Promise<number> {
  const sql = `select count(*) as n from outbox_messages where state = 'published'`;
  for (const until = Date.now() + PATIENCE; ;) {
    const [row] = (await database.query(sql)) as { n: string }[];
    const count = Number(row?.n);
    if (count >= expected || Date.now() > until) return count;
    await delay(20);
  }
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
