import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { INestApplicationContext } from '@nestjs/common';
import { ClientKafka, ClientRMQ } from '@nestjs/microservices';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  inProcess,
  OutboxService,
  OutboxUndecryptableError,
  type EncryptedPayload,
  type EncryptionContext,
  type OutboxMessage,
  type OutboxOptions,
  type PayloadEncryption,
} from '../../lib/index.js';
import { clientProxy } from '../../lib/transports/nest-client/index.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { CANARY, through } from './canaries.js';
import { secret, secretPayload } from './canary-enqueue.js';
import type { CanarySettings } from './canary-process.js';
import { cutBroker, failingStore, hooks, quote, THROWN } from './canary-relay.js';
import { Seen } from './seen.js';

const PREFIX = 'beside_';
/** Above 64 KiB: read by itself when its message is about to be published. */
const largePayload = () => ({ ...secretPayload(), large: CANARY.large, filling: 'filling '.repeat(9_000) });

/** Throws what it has, where a message asks for it. */
class Encryption implements PayloadEncryption {
  readonly key = Buffer.from(CANARY.encryptionKey);

  encrypt(plaintext: Uint8Array, { type }: EncryptionContext): EncryptedPayload {
    if (type === 'throws.encrypt') throw new Error(`cannot encrypt ${Buffer.from(plaintext).toString()}`);
    const cipher = createCipheriv('aes-256-ctr', this.key, Buffer.alloc(16));
    return { keyId: 'key-1', ciphertext: Buffer.concat([cipher.update(plaintext), cipher.final()]) };
  }

  decrypt(encrypted: EncryptedPayload, context: EncryptionContext): Uint8Array {
    const details = { encrypted, context };
    if (context.type === 'waits.decrypt') throw Object.assign(new Error('no such key'), details);
    if (context.type === 'throws.decrypt') throw Object.assign(new OutboxUndecryptableError('no such key'), details);
    const decipher = createDecipheriv('aes-256-ctr', this.key, Buffer.alloc(16));
    return Buffer.concat([decipher.update(encrypted.ciphertext), decipher.final()]);
  }
}

/** Nest's clients, which write to Nest's log by themselves. */
function clients({ rabbitmq, kafka, queue }: CanarySettings, rabbit: string): OutboxOptions['transports'] {
  const [server] = rabbitmq.split('@').slice(-1);
  const rmq = (url: string, more: object = {}) =>
    new ClientRMQ({ urls: [url], queue, noAssert: true, socketOptions: { reconnectTimeInSeconds: 1 }, ...more });
  const sasl = { mechanism: 'plain', username: 'shop', password: CANARY.clientPassword } as const;
  const log = (brokers: string[], more: object = {}) =>
    new ClientKafka({ client: { brokers, retry: { retries: 1 }, ...more }, producerOnlyMode: true });
  return {
    rmq: clientProxy({ client: rmq(rabbit) }),
    rmqLocked: clientProxy({ client: rmq(`amqp://shop:${CANARY.clientPassword}@${server}`) }),
    rmqNowhere: clientProxy({ client: rmq(`amqp://shop:${CANARY.clientPassword}@127.0.0.1:1`) }),
    rmqPattern: clientProxy({
      client: rmq(rabbit),
      pattern: (message) => {
        throw new Error(quote(message));
      },
    }),
    log: clientProxy({ client: log(kafka.split(',')) }),
    logSecured: clientProxy({ client: log(kafka.split(','), { sasl }) }),
    logNowhere: clientProxy({ client: log(['127.0.0.1:1'], { sasl }) }),
  };
}
const DOWN = ['rmqLocked', 'rmqNowhere', 'logSecured', 'logNowhere'] as const;

/** A second application: row locks, encrypted payloads, large ones, and Nest's clients. */
export async function failBeside(
  settings: CanarySettings,
  start: (dataSource: DataSource, options: OutboxOptions) => Promise<INestApplicationContext>,
): Promise<void> {
  const seen = new Seen();
  const toDatabase = await TcpProxy.start(settings.database.url);
  const toBroker = await TcpProxy.start(settings.rabbitmq);
  const url = through(settings.database.url, toDatabase);
  const dataSource = await new DataSource({
    ...settings.database,
    url,
    logging: 'all',
  } as DataSourceOptions).initialize();
  const admin = await new DataSource(settings.admin).initialize();
  const app = await start(dataSource, {
    database: { setup: 'create', prefix: PREFIX },
    coordination: 'rowLock',
    ordering: 'none',
    defaultTransport: 'local',
    transports: { local: inProcess(), ...clients(settings, through(settings.rabbitmq, toBroker)) },
    encryption: new Encryption(),
    maxPayloadBytes: 2 ** 27,
    logLevel: 'debug',
    pollInterval: 50,
    publishTimeout: '3s',
    lease: '20s',
    ...hooks(),
  });
  const outbox = app.get<OutboxService>(OutboxService);
  seen.listen(outbox);
  await publishes(outbox, settings, seen);
  await send(outbox, 'out', { transport: 'rmq' });
  await seen.until('a publish of the client', () => seen.count('published', { transport: 'rmq' }) > 0);
  await cutBroker(outbox, { seen, proxy: toBroker }, 'rmq', () => send(outbox, 'held', { transport: 'rmq' }));
  await failingStore(outbox, { seen, admin, proxy: toDatabase }, PREFIX);
  if (settings.admin.type !== 'postgres') {
    const [row] = await admin.query('select @@max_allowed_packet as size');
    const payload = Buffer.alloc(Number(row.size) / 2, CANARY.bytes);
    await seen.failure('F3: more than max_allowed_packet', () => send(outbox, 'too.large', { payload }));
  }
  const columns = 'type, last_error, errors, progress';
  seen.print('rows of the other parked', await admin.query(`select ${columns} from ${PREFIX}parked`));
  await app.close();
  await Promise.all([dataSource.destroy(), admin.destroy(), toDatabase.close(), toBroker.close()]);
}

const send = (outbox: OutboxService, type: string, more: object = {}) =>
  outbox.enqueueOutsideTransaction(secret({ type, key: type, payload: largePayload(), ...more }));

async function publishes(outbox: OutboxService, { smallTopic }: CanarySettings, seen: Seen): Promise<void> {
  await seen.failure('enqueue: encrypt throws', () => send(outbox, 'throws.encrypt'));
  await seen.failure('enqueue: a reserved header', () =>
    send(outbox, 'reserved', { headers: { 'encryption-key-id': CANARY.header } }),
  );
  const dying = [...Object.keys(THROWN), 'throws.decrypt'];
  await send(outbox, 'unhandled');
  for (const type of dying) await send(outbox, type);
  await send(outbox, 'waits.decrypt');
  await send(outbox, 'pattern', { transport: 'rmqPattern' });
  await send(outbox, 'too.large', { transport: 'log', topic: smallTopic });
  for (const transport of DOWN) await send(outbox, `to.${transport}`, { transport });
  for (const type of [...dying, 'pattern', 'too.large']) await seen.told('dead', { type } as OutboxMessage);
  for (const type of ['waits.decrypt', 'unhandled']) await seen.told('retried', { type } as OutboxMessage);
  for (const transport of DOWN) await seen.opened(transport);
  seen.print('health of the other', await outbox.health());
  seen.print('stats of the other', await outbox.stats());
}
