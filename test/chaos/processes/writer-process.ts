/** Writes transactions with messages, many at the same time, until it is told otherwise. Started by `../fleet.ts`. */
import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import {
  OutboxEvent,
  OutboxModule,
  OutboxService,
  OutboxTransactionConflictError,
  type PlainMessage,
} from '../../../lib/index.js';
import { Part } from '../part.js';
import { Planner, type Planned } from '../plan.js';
import {
  clockSince,
  readSettings,
  SEASONAL,
  tell,
  traitsOf,
  TRANSPORTS,
  type Order,
  type WriterSettings,
} from '../settings.js';
import { isSeasonal, KINDS, payloadOf, randomFrom, type PlannedMessage } from '../workload.js';
import { outboxOptions, typeOrmOptions } from './options.js';

/** Blocks its key when it dies, which it does: no broker takes it. */
@OutboxEvent<Plug>({
  type: 'order.plugged',
  topic: 'nowhere',
  transport: TRANSPORTS[0],
  key: (event) => event.key,
  onDead: 'block',
  contentType: 'application/json',
  headers: () => headers,
  payload: (event) => event.body,
})
class Plug {
  constructor(
    readonly key: string | null,
    readonly body: string,
  ) {}
}

class RollBack extends Error {}
class Writer {}

const settings = readSettings<WriterSettings>();
const now = clockSince(settings.origin);
const random = randomFrom(settings.seed * 7_919 + settings.run);
const planner = new Planner(settings.run, settings.ordering, random);
let called: number[] = [];
let ended: number[] = [];
const part = new Part(settings.part, () => {
  if (called.length > 0) part.add(['q', settings.run, called]);
  if (ended.length > 0) part.add(['e', settings.run, ended]);
  [called, ended] = [[], []];
});
let rate = 0;
/** Milliseconds that the next transaction stays open. */
let hold = 0;
let open = 0;
let committed = 0;

const headers = { 'x-secret': settings.secrets.header };
const bodyOf = (uid: number): string => payloadOf(uid, settings.secrets.payload);
const keyName = (key: number): string | null => (key < 0 ? null : `key-${key}`);

function messageOf(planned: PlannedMessage): PlainMessage | Plug {
  const { uid, key, transports, kind } = planned;
  const topic = isSeasonal(planned, traitsOf(settings.broker).isOneQueue) ? SEASONAL : 'orders';
  if (kind === 'plug') return new Plug(keyName(key), bodyOf(uid));
  return {
    type: kind === 'poison' ? 'order.poisoned' : 'order.placed',
    topic: kind === 'poison' ? 'nowhere' : topic,
    key: keyName(key),
    transport: TRANSPORTS.filter((_, bit) => transports & (1 << bit)),
    payload: bodyOf(uid),
    headers,
    contentType: 'application/json',
    ...(kind === 'later' ? { delay: 300 + Math.floor(random() * 2_700) } : {}),
  };
}

/** Business row and truth in the same transaction as the messages: what the truth says committed, committed. */
async function writeTruth(manager: EntityManager, began: number, { n, messages: plan }: Planned): Promise<void> {
  const messages = plan.map(({ key, transports, kind }) => `${key},${transports},${KINDS.indexOf(kind)}`).join(';');
  const values = [settings.run, n, began, messages];
  if (settings.store === 'postgres') {
    await manager.query(
      'with placed as (insert into orders (writer, n, placed) values ($1, $2, $5)) insert into truth values ($1, $2, $3, $4)',
      [...values, plan.length],
    );
    return;
  }
  await manager.query('insert into orders (writer, n, placed) values (?, ?, ?)', [settings.run, n, plan.length]);
  await manager.query('insert into truth values (?, ?, ?, ?)', values);
}

async function transaction(dataSource: DataSource, outbox: OutboxService, planned: Planned): Promise<void> {
  const { n, messages, hold: short, rollBack } = planned;
  const half = short.between === undefined ? messages.length : Math.ceil(messages.length / 2);
  const after = Math.max(short.after, hold);
  hold = 0;
  const began = now();
  await dataSource.transaction(async (manager) => {
    await writeTruth(manager, began, planned);
    if (short.before > 0) await pause(short.before);
    await outbox.enqueue(messages.slice(0, half).map(messageOf), { manager });
    if (half < messages.length) {
      await pause(short.between);
      await outbox.enqueue(messages.slice(half).map(messageOf), { manager });
    }
    if (after > 0) await pause(after);
    if (rollBack) throw new RollBack();
    called.push(n, now());
  });
  ended.push(n, now());
  committed += messages.length;
}

/** A transaction that the database ended for another one's sake runs again, as a whole: the same messages in a new one. */
const TRIES = 20;
async function untilThrough(dataSource: DataSource, outbox: OutboxService, planned: Planned): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await transaction(dataSource, outbox, planned);
    } catch (error) {
      if (!(error instanceof OutboxTransactionConflictError) || tries === TRIES) throw error;
      part.add(['a', settings.run, planned.n, now()]);
    }
  }
}

/** Starts so many transactions that the rate is kept on average; what was missed in an outage is not made up for. */
async function pace(dataSource: DataSource, outbox: OutboxService): Promise<void> {
  const ROWS = 5.5;
  let last = performance.now();
  let due = 0;
  for (;;) {
    await pause(10);
    const time = performance.now();
    due = Math.min(due + (((time - last) / 1_000) * rate) / ROWS, settings.concurrency);
    last = time;
    while (due >= 1 && open < settings.concurrency) {
      for (const planned of planner.next(settings.concurrency - open)) {
        due -= 1;
        open += 1;
        void untilThrough(dataSource, outbox, planned)
          .catch((error: unknown) => failed(error))
          .finally(() => (open -= 1));
      }
    }
  }
}

function failed(error: unknown): void {
  if (error instanceof RollBack) return;
  part.add(['b', settings.run, now(), String(error).slice(0, 100)]);
  complain(error);
}

let complaints = 0;
/** Faults of the database are expected; a few are told, so that a mistake of ours is seen. */
function complain(error: unknown): void {
  if ((complaints += 1) > 200) return;
  console.error(new Date().toISOString(), String(error).split('\n')[0]);
}

let releasing = false;

/** An operator who releases blocked keys; one round at a time, or a round that takes long is never through. */
async function release(dataSource: DataSource, outbox: OutboxService): Promise<void> {
  if (releasing) return;
  releasing = true;
  try {
    await releaseAll(dataSource, outbox);
  } finally {
    releasing = false;
  }
}

async function releaseAll(dataSource: DataSource, outbox: OutboxService): Promise<void> {
  const rows = (await dataSource.query(
    settings.store === 'postgres'
      ? 'select distinct key from outbox_parked where state = 4 and blocking'
      : 'select distinct convert(`key` using utf8mb4) as `key` from outbox_parked where state = 4 and blocking = 1',
  )) as { key: string }[];
  for (const { key } of rows) await outbox.release(key);
}

async function main(): Promise<void> {
  const application = await NestFactory.createApplicationContext(
    {
      module: Writer,
      imports: [
        TypeOrmModule.forRoot(typeOrmOptions(settings, settings.concurrency)),
        OutboxModule.forRoot({
          ...outboxOptions(settings),
          relay: false,
          database: { setup: settings.createTables ? 'create' : 'check' },
        }),
      ],
    },
    { logger: ['warn', 'error'], abortOnError: false },
  );
  const [dataSource, outbox] = [application.get(DataSource), application.get(OutboxService)];
  process.on('message', (order: Order) => {
    if (order.kind === 'rate') rate = order.messagesPerSecond;
    else if (order.kind === 'hold') hold = order.ms;
    else if (order.kind === 'release') void release(dataSource, outbox).catch(complain);
    else if (order.kind === 'flush') void settle();
  });
  setInterval(() => tell({ kind: 'count', count: committed }), 200);
  tell({ kind: 'ready' });
  await pace(dataSource, outbox);
}

/** Everything that was begun has ended, and is in the history. */
async function settle(): Promise<void> {
  rate = 0;
  while (open > 0) await pause(20);
  part.flush();
  tell({ kind: 'flushed' });
}

process.once('disconnect', () => process.exit(0));
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
