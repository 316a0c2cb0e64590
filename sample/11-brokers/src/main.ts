import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { AppModule } from './app.module.js';
import { Billing } from './billing.js';
import type { Broker, Open } from './broker.js';
import { Invoice, Order } from './entities.js';
import { OrderPlaced } from './order-placed.event.js';

const PATIENCE = 120_000;
const CUSTOMERS = ['Ada', 'Grace', 'Hedy', 'Joan'];
const NUMBERS = [1, 2, 3, 4, 5, 6, 7, 8];
/** A file for each. An application has one of them, and its client alone. */
const BROKERS = readdirSync(new URL('brokers', import.meta.url)).map((file) => file.replace('.js', ''));

/** @returns the exit code: 0 if each order has one invoice, in the order of its customer */
export async function main([name = 'nats']: readonly string[], interruption: AbortSignal): Promise<number> {
  const { DATABASE_URL: url = '', BROKER_URL: address = '' } = process.env;
  const id = randomBytes(4).toString('hex');
  const broker = await open(name, address, `shop-${id}-`);
  const database = await new DataSource({ type: 'postgres', url }).initialize();
  const schema = `shop_${id}`;
  await database.query(`create schema ${schema}`);
  const module = AppModule.with(url, schema, broker.transport);
  const app = await NestFactory.createApplicationContext(module, { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  try {
    return await Promise.race([business(app, broker, name), interrupted(interruption)]);
  } finally {
    await app.close();
    await broker.close();
    await database.query(`drop schema ${schema} cascade`);
    await database.destroy();
  }
}

async function open(name: string, address: string, prefix: string): Promise<Broker> {
  if (!BROKERS.includes(name)) throw new Error(`This sample knows ${BROKERS.join(', ')}, and not ${name}.`);
  const { open: connect } = (await import(`./brokers/${name}.js`)) as { open: Open };
  return connect(address, prefix).catch((error: Error & { code?: string }) => {
    const shown = address.replace(/\/\/.*@/, '//');
    throw new Error(`No ${name} answers at ${shown}, which BROKER_URL names: ${error.message || error.code}.`);
  });
}

async function business(app: INestApplicationContext, broker: Broker, name: string): Promise<number> {
  const [billing, dataSource] = [app.get(Billing), app.get(DataSource)];
  await broker.consume((id, body) => billing.handle(id, body));
  await Promise.all(CUSTOMERS.map((customer) => shop(app, customer)));
  const find = (): Promise<Invoice[]> => dataSource.getRepository(Invoice).find({ order: { position: 'asc' } });
  const total = CUSTOMERS.length * NUMBERS.length;
  let invoices = await find();
  for (const until = Date.now() + PATIENCE; invoices.length < total && Date.now() < until; invoices = await find())
    await delay(20);
  const numbersOf = (of: string): string =>
    String(invoices.filter(({ customer }) => customer === of).map(({ number }) => number));
  for (const customer of CUSTOMERS) console.log(`${customer}  ${numbersOf(customer)}`);
  console.log(`${total} orders, ${billing.deliveries} deliveries, ${invoices.length} invoices`);
  const isGood = CUSTOMERS.every((customer) => numbersOf(customer) === String(NUMBERS));
  console.log(isGood ? `OK: ${name} has each order once, in the order of its customer` : 'FAILED');
  return isGood ? 0 : 1;
}

/** One order after the other, each in a transaction with its message. */
async function shop(app: INestApplicationContext, customer: string): Promise<void> {
  for (const number of NUMBERS) {
    await app.get(DataSource).transaction(async (manager) => {
      await manager.insert(Order, { customer, number });
      await app.get(OutboxService).enqueue(new OrderPlaced(customer, number), { manager });
    });
  }
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
