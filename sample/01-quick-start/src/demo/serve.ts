import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Arguments } from './arguments.js';
import { say } from './console.js';
import { ShopDatabase } from './database.js';
import { ShopProcess } from './process.js';

const STOCK = 1_000;

/** Keeps API and relay up until Ctrl-C or SIGTERM. */
export async function serve(args: Arguments, interruption: AbortSignal): Promise<void> {
  const ledger = join(tmpdir(), 'warehouse.jsonl');
  const env = {
    PORT: process.env['PORT'] ?? '3000',
    SHOP_SCHEMA: 'quick_start',
    SHOP_LEDGER: ledger,
    ...(args.kafka !== undefined && { SHOP_KAFKA: args.kafka }),
    ...(args.rabbitmq !== undefined && { SHOP_RABBITMQ: args.rabbitmq }),
  };
  const database = await ShopDatabase.open(process.env['DATABASE_URL'] ?? '', env.SHOP_SCHEMA);
  const api = await ShopProcess.start('api', env);
  await database.fillShelves(STOCK);
  const relay = await ShopProcess.start('relay', env);
  const where = args.kafka ? 'Kafka topic orders' : args.rabbitmq ? 'RabbitMQ queue orders' : ledger;
  const order = '{"orderId":"A-1","customer":"ada","sku":"TEA-SENCHA","quantity":2}';
  say(`API ${api.ready} (pid ${api.pid}), relay (pid ${relay.pid}); messages go to ${where}`);
  console.log(`
  curl -i ${api.ready}/orders -H 'content-type: application/json' -d '${order}'
  kill -9 ${relay.pid}            orders are still taken, and wait in ${env.SHOP_SCHEMA}.outbox_ready
  Ctrl-C                    ends both
`);
  if (!interruption.aborted) await once(interruption, 'abort');
  say('stopping');
  await Promise.all([api.stop(), relay.stop()]);
  await database.close();
  say('stopped');
}
