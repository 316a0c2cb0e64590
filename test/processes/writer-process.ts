/** Writers in a process of their own, each on its own connection and with its own keys. Started by `fleet.ts`. */
import { DataSource } from 'typeorm';
import { bucketOf } from '../../lib/message/bucket-of.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import type { NewMessage } from '../../lib/outbox-message.js';
import { openStore } from '../support/open-store.js';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { databaseOptions } from './database-options.js';
import type { FleetSettings } from './fleet.js';

const settings = JSON.parse(process.env['FLEET'] as string) as FleetSettings;
const PER_TRANSACTION = 10;

function message(key: string, n: number): NewMessage {
  const fixed = { transport: 0, topic: 'orders', type: 'order.placed', version: 1, contentType: 'application/json' };
  const none = { headers: null, options: null, delay: null, deliverAt: null, dedupKey: null };
  return { ...fixed, ...none, id: uuidV7(), bucket: bucketOf(key, 32), key, payload: Buffer.from(String(n)) };
}

async function main(): Promise<void> {
  const { writers, messagesPerWriter, keysPerWriter, firstWriter, url } = settings;
  const dataSource = await new DataSource({
    ...databaseOptions(url),
    extra: { max: writers, connectionLimit: writers },
  } as never).initialize();
  const options = resolveOptions({ transports: { default: class {} as never } }, {});
  const store = openStore(dataSource, { ...options, options: options.database });
  let rolledBack = 0;
  const write = async (writer: number): Promise<void> => {
    const next = new Map<string, number>();
    for (let written = 0, turn = 0; written < messagesPerWriter; turn += 1) {
      const rollBack = turn % 20 === 7;
      const rows = Array.from({ length: Math.min(PER_TRANSACTION, messagesPerWriter - written) }, (_, i) => {
        const key = `w${writer}-${(turn * PER_TRANSACTION + i) % keysPerWriter}`;
        const n = (next.get(key) ?? 0) + 1;
        if (!rollBack) next.set(key, n);
        return message(key, rollBack ? -1 : n);
      });
      await dataSource
        .transaction(async (manager) => {
          await store.writer.insert(transactionExecutor(manager.queryRunner as never), rows);
          if (rollBack) throw new RollBack();
        })
        .catch((error: unknown) => {
          if (!(error instanceof RollBack)) throw error;
          rolledBack += 1;
        });
      if (!rollBack) written += rows.length;
    }
  };
  await Promise.all(Array.from({ length: writers }, (_, i) => write(firstWriter + i)));
  await store.close();
  await dataSource.destroy();
  process.send?.({ rolledBack });
}

class RollBack extends Error {}

void main();
