import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule, type Settings } from './app.module.js';
import { BoxOffice } from './box-office.js';
import { createDatabase, migrate } from './database.js';
import { PrismaService } from './prisma.service.js';
import { TicketsService } from './tickets.service.js';

const PATIENCE = 120_000;
/** Ten tickets of each, and more guests than that, all at once. */
const TICKETS = 10;
const GUESTS = 12;
const CONCERTS = ['choir', 'jazz', 'opera'];
const SALES = CONCERTS.length * TICKETS;

/** @returns the exit code: 0 if box office and mailer got each sale that was committed, in order per concert, and no other one */
export async function main(_argv: readonly string[], interruption: AbortSignal): Promise<number> {
  const name = `tickets_${randomBytes(4).toString('hex')}`;
  const broker = process.env['RABBITMQ_URL'] ?? '';
  const database = await createDatabase(process.env['DATABASE_URL'] ?? '', name);
  try {
    await migrate(database.url);
    process.env['DATABASE_URL'] = database.url;
    const office = await BoxOffice.open(broker, name);
    return await withApp({ broker, queue: name }, (app) =>
      Promise.race([business(app, office), interrupted(interruption)]),
    ).finally(() => office.close());
  } finally {
    await database.drop();
  }
}

async function withApp(settings: Settings, work: (app: INestApplicationContext) => Promise<number>): Promise<number> {
  const app = await NestFactory.createApplicationContext(AppModule.with(settings), { logger: ['error', 'warn'] });
  return work(app).finally(() => app.close());
}

async function business(app: INestApplicationContext, office: BoxOffice): Promise<number> {
  const [prisma, tickets] = [app.get(PrismaService), app.get(TicketsService)];
  await prisma.concert.createMany({ data: CONCERTS.map((id) => ({ id, left: TICKETS })) });
  const wishes = CONCERTS.flatMap((id) => Array.from({ length: GUESTS }, (_, n) => tickets.sell(id, `guest ${n}`)));
  const refused = (await Promise.allSettled(wishes)).filter(({ status }) => status === 'rejected').length;
  console.log(`${wishes.length} guests at once, ${refused} of them rolled back: sold out`);
  return verdict(office, prisma);
}

async function verdict(office: BoxOffice, prisma: PrismaService): Promise<number> {
  for (const until = Date.now() + PATIENCE; (await waiting(prisma)) > 0 && Date.now() < until;) await delay(20);
  for (const until = Date.now() + PATIENCE; office.count < SALES && Date.now() < until;) await delay(20);
  for (const [concert, left] of [...office.left].sort()) console.log(`${concert}  left: ${left.join(' ')}`);
  const falling = String(Array.from({ length: TICKETS }, (_, n) => TICKETS - 1 - n));
  const isInOrder = CONCERTS.every((concert) => String(office.left.get(concert)) === falling);
  const mails = await prisma.mail.count();
  const unsold = await prisma.concert.count({ where: { left: { not: 0 } } });
  console.log(`${office.count} sales told the box office, ${mails} mails sent, ${await waiting(prisma)} messages left`);
  const isGood = isInOrder && office.count === SALES && mails === SALES && unsold === 0;
  console.log(isGood ? `OK: ${SALES} sales, in order per concert` : 'FAILED');
  return isGood ? 0 : 1;
}

async function waiting(prisma: PrismaService): Promise<number> {
  const [row] = await prisma.$queryRaw<{ n: number }[]>`select count(*)::int as n from outbox.outbox_messages`;
  return row?.n ?? 0;
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}
