import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LEASE } from '../shop/settings.js';
import type { Arguments } from './arguments.js';
import { say } from './console.js';
import { ShopDatabase } from './database.js';
import { ShopProcess } from './process.js';
import { withoutPassword } from './reach.js';
import { startReader } from './reader.js';
import type { Reader } from './received.js';

const STOCK = 1_000;
const SCHEMA = 'quick_start';
/** How long there is no relay after one was killed: time to place orders. */
const ABSENCE = 5_000;
/** What the reader found is printed this often. */
const LOOKING = 200;

/** Keeps API and relay up until Ctrl-C or SIGTERM. */
export async function serve(args: Arguments, interruption: AbortSignal): Promise<void> {
  const port = process.env['PORT'] ?? '3000';
  await requirePort(port);
  const folder = await mkdtemp(join(tmpdir(), 'quick-start-'));
  const service = new Service(args, port, folder, interruption);
  try {
    await service.start();
    service.explain();
    await service.run();
    say('stopping');
  } finally {
    await service.stop();
    await rm(folder, { recursive: true, force: true });
  }
  say('stopped');
}

async function requirePort(port: string): Promise<void> {
  const number = Number(port);
  if (port.trim() === '' || !(Number.isInteger(number) && number >= 0 && number <= 65_535))
    throw new Error(`PORT is ${port}; must be a whole number from 0 to 65535`);
  const probe = createServer();
  const listening = once(probe, 'listening');
  probe.listen(number, '127.0.0.1');
  await listening.catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
    throw new Error(`Port ${port} is in use; another one: PORT=${number + 1} npm start -- --serve`);
  });
  probe.close();
  await once(probe, 'close');
}

class Service {
  private readonly url = process.env['DATABASE_URL'] ?? '';
  private readonly prefix = `quick-start-${randomBytes(4).toString('hex')}.`;
  private readonly ledger: string;
  private readonly env: NodeJS.ProcessEnv;
  private database!: ShopDatabase;
  private reader!: Reader;
  private api!: ShopProcess;
  private relay!: ShopProcess;
  private readonly undo: (() => Promise<void>)[] = [];

  constructor(
    private readonly args: Arguments,
    port: string,
    folder: string,
    private readonly interruption: AbortSignal,
  ) {
    this.ledger = join(folder, 'warehouse.jsonl');
    this.env = {
      PORT: port,
      SHOP_SCHEMA: SCHEMA,
      SHOP_PREFIX: this.prefix,
      SHOP_LEDGER: this.ledger,
      ...(args.kafka !== undefined && { SHOP_KAFKA: args.kafka }),
      ...(args.rabbitmq !== undefined && { SHOP_RABBITMQ: args.rabbitmq }),
    };
  }

  async start(): Promise<void> {
    this.reader = await startReader(this.args, this.prefix, this.ledger);
    this.undo.unshift(() => this.reader.stop());
    this.database = await ShopDatabase.open(this.url, SCHEMA);
    this.undo.unshift(() => this.database.close());
    this.api = await ShopProcess.start('api', this.env);
    this.undo.unshift(() => this.api.stop());
    await this.database.fillShelves(STOCK);
    this.relay = await ShopProcess.start('relay', this.env);
    this.undo.unshift(() => this.relay.stop());
    const version = await this.database.version();
    say(`PostgreSQL ${version} (${withoutPassword(this.url)}, schema ${SCHEMA})`);
  }

  explain(): void {
    const { api, relay, args, prefix } = this;
    const where = args.kafka
      ? `Kafka topic ${prefix}orders`
      : args.rabbitmq
        ? `RabbitMQ queue ${prefix}orders`
        : this.ledger;
    const order = '{"orderId":"A-1","customer":"ada","sku":"TEA-SENCHA","quantity":2}';
    say(`API ${api.ready} (pid ${api.pid}), relay (pid ${relay.pid}); messages go to ${where}`);
    console.log(`
  curl -i ${api.ready}/orders -H 'content-type: application/json' -d '${order}'
  kill -9 ${relay.pid}            orders are still taken, and wait in ${SCHEMA}.outbox_ready; another relay comes by itself
  Ctrl-C                    ends both
`);
  }

  /** Until Ctrl-C, or until the API is gone or a relay does not come back. */
  async run(): Promise<void> {
    const ending = new AbortController();
    const signal = AbortSignal.any([ending.signal, this.interruption]);
    const watching = [this.keepRelay(signal), this.printArrivals(signal)];
    const apiGone = this.api.ended.then((how) => {
      if (!signal.aborted) throw new Error(`the api process ended with ${how}`);
    });
    try {
      await Promise.race([aborted(signal), apiGone, ...watching]);
    } finally {
      ending.abort();
      await Promise.allSettled(watching);
    }
  }

  /** As an orchestrator does it: whenever the relay died, another one. */
  private async keepRelay(signal: AbortSignal): Promise<void> {
    for (;;) {
      const how = await Promise.race([this.relay.ended, aborted(signal)]);
      if (signal.aborted) return;
      say(`the relay (pid ${this.relay.pid}) ended with ${how}; another one starts in ${ABSENCE / 1_000} s`);
      await delay(ABSENCE, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      this.relay = await ShopProcess.start('relay', this.env);
      const rest = (LEASE - ABSENCE) / 1_000;
      say(`a new relay (pid ${this.relay.pid}) is there; it takes over a killed one's leases within ${rest} s`);
    }
  }

  private async printArrivals(signal: AbortSignal): Promise<void> {
    for (let printed = 0; !signal.aborted;) {
      for (; printed < this.reader.received.length; printed++) {
        const { type, id, payload } = this.reader.received[printed]!;
        say(`arrived: ${type} ${payload.orderId}, message ${id}`);
      }
      await delay(LOOKING, undefined, { signal }).catch(() => {});
    }
  }

  async stop(): Promise<void> {
    for (const undo of this.undo) await undo().catch((error: Error) => say(error.message));
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
