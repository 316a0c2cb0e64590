import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NewOrder } from '../shop/orders.service.js';
import { LEASE } from '../shop/settings.js';
import type { Arguments } from './arguments.js';
import { printVerdict, say } from './console.js';
import { type Answer, sendOrders } from './customers.js';
import { ShopDatabase } from './database.js';
import { generatedOrders, ordersOfFile, STOCK_PER_ORDER } from './orders.js';
import { ShopProcess } from './process.js';
import { withoutPassword } from './reach.js';
import { startReader } from './reader.js';
import type { Reader } from './received.js';
import { isGood, judge } from './verdict.js';

/** How long nothing may move, on the slowest machine, before the run gives up. */
const STALLED = 180_000;
/** The sending is stretched over this time, so that there is a middle to kill the relay in. */
const SENDING = 4_000;
/** How long there is no relay at all. */
const ABSENCE = 1_000;

/** How long the reader gets to catch up with an empty outbox. Waited out only when something is missing. */
const READING = 60_000;

/** @returns whether everything that was committed arrived, once at least, as it was and in order. */
export async function runDemo(args: Arguments, interruption: AbortSignal): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'quick-start-'));
  const run = new Run(args, randomBytes(4).toString('hex'), folder);
  try {
    return await Promise.race([run.go(), interrupted(interruption)]);
  } finally {
    await run.cleanUp();
    await rm(folder, { recursive: true, force: true });
  }
}

async function interrupted(interruption: AbortSignal): Promise<never> {
  if (!interruption.aborted) await once(interruption, 'abort');
  throw interruption.reason as Error;
}

class Run {
  private readonly answers: Answer[] = [];
  private readonly env: NodeJS.ProcessEnv;
  private orders: NewOrder[] = [];
  private database!: ShopDatabase;
  private reader!: Reader;
  private api!: ShopProcess;
  private relay!: ShopProcess;
  /** Those of the killed relay, at the latest. */
  private leasesEndAt = 0;
  private stoppedReading: Promise<void> | undefined;
  private readonly undo: (() => Promise<void>)[] = [];

  constructor(
    private readonly args: Arguments,
    private readonly id: string,
    folder: string,
  ) {
    this.env = {
      PORT: '0',
      SHOP_SCHEMA: `quick_start_${id}`,
      SHOP_PREFIX: `quick-start-${id}.`,
      SHOP_LEDGER: join(folder, 'warehouse.jsonl'),
      ...(args.kafka !== undefined && { SHOP_KAFKA: args.kafka }),
      ...(args.rabbitmq !== undefined && { SHOP_RABBITMQ: args.rabbitmq }),
    };
  }

  async go(): Promise<boolean> {
    const { orders: count } = this.args;
    const file = new URL('../../orders.jsonl', import.meta.url);
    this.orders = count === undefined ? await ordersOfFile(file) : generatedOrders(count);
    await this.start();
    const sending = sendOrders(this.api.ready, this.orders, SENDING / this.orders.length, (a) => this.answers.push(a));
    sending.catch(() => {}); // looked at below
    const progress = setInterval(() => this.progress(), 1_000);
    try {
      await this.waitFor('the middle', () => this.answers.length >= this.orders.length * 0.4);
      await Promise.all([sending, this.crash()]);
      await this.waitForEverything();
    } finally {
      clearInterval(progress);
    }
    return this.verdict();
  }

  private async start(): Promise<void> {
    const { DATABASE_URL: url = '' } = process.env;
    this.database = await ShopDatabase.open(url, this.env['SHOP_SCHEMA']!);
    this.undo.unshift(() => this.database.close());
    this.reader = await startReader(this.args, this.env['SHOP_PREFIX']!, this.env['SHOP_LEDGER']!);
    this.undo.unshift(() => this.readAll());
    this.api = await ShopProcess.start('api', this.env);
    this.undo.unshift(() => this.api.stop());
    await this.database.fillShelves(STOCK_PER_ORDER * this.orders.length);
    this.relay = await ShopProcess.start('relay', this.env);
    this.undo.unshift(() => this.relay.stop());
    const broker = this.args.kafka ? 'Kafka' : this.args.rabbitmq ? 'RabbitMQ' : 'no broker';
    const where = `${withoutPassword(url)}, schema ${this.database.schema}`;
    say(`PostgreSQL ${await this.database.version()} (${where}), ${broker}`);
    say(`API ${this.api.ready} (pid ${this.api.pid}) only enqueues; relay (pid ${this.relay.pid}) publishes`);
  }

  private async crash(): Promise<void> {
    const { pid } = this.relay;
    await this.relay.kill();
    this.leasesEndAt = performance.now() + LEASE;
    say(`SIGKILL for the relay (pid ${pid}); the API goes on taking orders`);
    await new Promise((resolve) => setTimeout(resolve, ABSENCE));
    this.relay = await ShopProcess.start('relay', this.env);
    say(`a new relay (pid ${this.relay.pid}) is there, and takes over the dead one's leases`);
  }

  /** First the outbox, then the reader: what has not arrived some time after the outbox is empty is lost. */
  private async waitForEverything(): Promise<void> {
    const committed = (await this.database.orders()).length;
    await this.waitFor('the outbox to be empty', async () => (await this.database.waiting()) === 0);
    const grace = AbortSignal.timeout(READING);
    const seen = (): number => new Set(this.reader.received.map(({ payload }) => payload.orderId)).size;
    await this.waitFor('the reader', () => seen() >= committed || grace.aborted);
  }

  /** When it gives up it goes on: the verdict says what is missing. */
  private async waitFor(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const moved = (): number => this.answers.length + this.reader.received.length;
    for (let [last, since] = [moved(), performance.now()]; !(await condition());) {
      if (moved() !== last) [last, since] = [moved(), performance.now()];
      if (performance.now() - since > STALLED) return say(`gave up waiting for ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  private progress(): void {
    const accepted = this.answers.filter(({ status }) => status === 202).length;
    const sent = `${this.answers.length}/${this.orders.length}`;
    const arrived = this.reader.received.length;
    const left = Math.ceil((this.leasesEndAt - performance.now()) / 1_000);
    const waiting = left > 0 && arrived < accepted ? `  (the dead relay's leases are taken over within ${left} s)` : '';
    say(
      `orders ${sent}  committed ${accepted}  rolled back ${this.answers.length - accepted}  arrived ${arrived}${waiting}`,
    );
  }

  private async verdict(): Promise<boolean> {
    this.progress();
    const committed = await this.database.orders();
    await this.relay.stop();
    await this.readAll();
    const verdict = judge(committed, this.reader.received, this.answers);
    printVerdict(verdict, this.answers);
    return isGood(verdict);
  }

  private readAll(): Promise<void> {
    this.stoppedReading ??= this.reader.stop();
    return this.stoppedReading;
  }

  async cleanUp(): Promise<void> {
    for (const undo of this.undo) await undo().catch((error: Error) => say(error.message));
  }
}
