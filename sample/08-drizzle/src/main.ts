import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { asc, count } from 'drizzle-orm';
import { Client } from 'pg';
import { AppModule } from './app.module.js';
import { Database } from './database.js';
import { migrate } from './migrate.js';
import { OrdersService } from './orders.service.js';
import { customers, letters, orders } from './schema.js';

const PATIENCE = 120_000;
const CUSTOMERS = ['Ada', 'Grace', 'Hedy'];
/** What each customer asks for, all at once: six good orders, two of them with a coupon that all have, and two that are rolled back. */
const WISHES = [undefined, 'WELCOME', undefined, 'forged', 'WELCOME', undefined, 'forged', undefined];
const GOOD = 6;

/** @returns the exit code: 0 if each order that was committed has its letter, in order per customer, and no other one has */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const server = process.env['DATABASE_URL'] ?? '';
  const name = `orders_${randomBytes(4).toString('hex')}`;
  const url = new URL(server);
  url.pathname = name;
  await run(server, `create database ${name}`);
  try {
    await migrate(url.href);
    process.env['DATABASE_URL'] = url.href;
    const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
    return await Promise.race([business(app), interrupted(interruption)]).finally(() => app.close());
  } finally {
    await run(server, `drop database ${name} with (force)`);
  }
}

async function business(app: INestApplicationContext): Promise<number> {
  const [{ db }, service] = [app.get(Database), app.get(OrdersService)];
  await db.insert(customers).values(CUSTOMERS.map((customer) => ({ name: customer, orders: 0 })));
  const wishes = CUSTOMERS.flatMap((customer) => WISHES.map((coupon) => service.place(customer, coupon)));
  const refused = (await Promise.allSettled(wishes)).filter(({ status }) => status === 'rejected').length;
  console.log(`${wishes.length} orders at once, ${refused} of them rolled back: forged coupons`);
  return verdict(db);
}

async function verdict(db: Database['db']): Promise<number> {
  const waiting = async () => (await db.execute(`select id from outbox.outbox_messages`)).rows.length;
  for (const until = Date.now() + PATIENCE; (await waiting()) > 0 && Date.now() < until;) await delay(20);
  const written = await db.select().from(letters).orderBy(asc(letters.position));
  for (const name of CUSTOMERS) console.log(`${name}  ${about(written, name).join(', ')}`);
  const redeemed = written.filter(({ about: text }) => text.startsWith('coupon')).length;
  const [placed] = await db.select({ count: count() }).from(orders);
  console.log(`${placed?.count} orders, ${written.length} letters, ${await waiting()} messages left`);
  const inOrder = CUSTOMERS.every((name) => isInOrder(about(written, name)));
  const total = CUSTOMERS.length * GOOD;
  const isGood = inOrder && placed?.count === total && written.length === total + 1 && redeemed === 1;
  console.log(isGood ? `OK: ${total} orders and one coupon, in order per customer` : 'FAILED');
  return isGood ? 0 : 1;
}

function about(written: readonly (typeof letters.$inferSelect)[], name: string): string[] {
  return written.filter(({ customer }) => customer === name).map(({ about: text }) => text);
}

/** A coupon comes right after its order. */
function isInOrder(texts: readonly string[]): boolean {
  const numbers = texts.filter((text) => text.startsWith('order')).map((text) => Number(text.slice('order '.length)));
  const coupon = texts.findIndex((text) => text.startsWith('coupon'));
  const follows = coupon === -1 || texts[coupon] === `coupon for ${texts[coupon - 1]}`;
  return follows && String(numbers) === String(Array.from({ length: GOOD }, (_, n) => n + 1));
}

async function run(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
