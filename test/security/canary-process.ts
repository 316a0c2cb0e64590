/** An application that meets one failure after the other, and prints all that it sees. Started by `canary.spec.ts`. */
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { inProcess, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { kafka } from '../../lib/transports/kafka/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { CANARY, through } from './canaries.js';
import { failBeside } from './canary-beside.js';
import { cancelledStatements, damagedPayload } from './canary-database.js';
import { failingEnqueues } from './canary-enqueue.js';
import {
  failingLeases,
  failingOperators,
  failingPublishes,
  failingStore,
  Handlers,
  hooks,
  Silent,
} from './canary-relay.js';
import { Seen } from './seen.js';

export interface CanarySettings {
  readonly database: DataSourceOptions & { readonly url: string };
  /** Same database, more rights. */
  readonly admin: DataSourceOptions;
  readonly rabbitmq: string;
  readonly kafka: string;
  /** Takes messages of at most 1,000 bytes. */
  readonly smallTopic: string;
  readonly queue: string;
}

const settings = JSON.parse(process.env['CANARY'] as string) as CanarySettings;
const seen = new Seen();

async function main(): Promise<void> {
  const toDatabase = await TcpProxy.start(settings.database.url);
  const toBroker = await TcpProxy.start(settings.rabbitmq);
  const url = through(settings.database.url, toDatabase);
  const admin = await new DataSource(settings.admin).initialize();
  const dataSource = await new DataSource({
    ...settings.database,
    url,
    logging: 'all',
  } as DataSourceOptions).initialize();
  await failingStarts(dataSource);

  const app = await application(dataSource, options(through(settings.rabbitmq, toBroker)));
  const outbox = app.get(OutboxService);
  seen.listen(outbox);
  const beside = failBeside(settings, application);
  beside.catch(() => undefined); // awaited below
  await failingEnqueues(outbox, admin, seen);
  await failingPublishes(outbox, { seen, proxy: toBroker, settings });
  await failingOperators(outbox, seen);
  await failingStore(outbox, { seen, admin, proxy: toDatabase }, 'outbox_');
  await failingLeases(seen, admin);
  await cancelledStatements(outbox, { seen, admin });
  if (settings.admin.type === 'postgres') await damagedPayload(outbox, { seen, admin });
  for (const table of ['parked', 'archive'])
    seen.print(
      `rows of ${table}`,
      await admin.query(`select type, ${COLUMNS[table as 'parked']} from outbox_${table}`),
    );
  await app.close();
  await beside;
  await refusedTables(dataSource, admin);
  await Promise.all([dataSource.destroy(), admin.destroy(), toDatabase.close(), toBroker.close()]);
  console.log('=== the end');
}

const COLUMNS = { parked: 'last_error, errors, progress', archive: 'attempts' } as const;

function options(rabbit: string): OutboxOptions {
  const [server] = settings.rabbitmq.split('@').slice(-1);
  const sasl = { mechanism: 'plain', username: 'shop', password: CANARY.saslPassword } as const;
  return {
    database: { setup: 'create' },
    defaultTransport: 'local',
    transports: {
      local: inProcess(),
      quiet: new Silent(),
      rabbit: rabbitmq({ url: rabbit, exchange: '' }),
      locked: rabbitmq({ url: `amqp://shop:${CANARY.amqpPassword}@${server}` }),
      log: kafka({ client: { brokers: settings.kafka.split(',') } }),
      secured: kafka({ client: { brokers: settings.kafka.split(','), sasl } }),
      nowhere: kafka({ client: { brokers: ['127.0.0.1:1'], sasl } }),
    },
    logLevel: 'debug',
    pollInterval: 50,
    publishTimeout: '3s',
    lease: '20s',
    ...hooks(),
  };
}

async function application(dataSource: DataSource, outbox: OutboxOptions) {
  @Module({
    imports: [OutboxModule.forRoot({ ...outbox, dataSource })],
    providers: [Handlers],
  })
  class AppModule {}
  return NestFactory.createApplicationContext(AppModule, {
    logger: ['verbose', 'debug', 'log', 'warn', 'error', 'fatal'],
    abortOnError: false,
  });
}

/** Secrets in the wrong place, and tables that are not there. */
async function failingStarts(dataSource: DataSource): Promise<void> {
  const secret = `amqp://shop:${CANARY.amqpPassword}@host`;
  const wrong: Record<string, () => unknown> = {
    'a URL as a transport': () => ({ transports: { a: secret } }),
    'a URL as a schema': () => ({ database: { schema: settings.database.url, prefix: secret } }),
    'an object with a password': () => ({ serializer: { password: CANARY.amqpPassword }, logger: { url: secret } }),
    'no tables': () => ({}),
    'options of rabbitmq()': () => ({
      transports: { a: rabbitmq({ urls: secret, password: CANARY.amqpPassword } as never) },
    }),
    'a URL that is none': () => ({ transports: { a: rabbitmq({ url: `amqp://shop:${CANARY.amqpPassword}@:x:1` }) } }),
    'options of kafka()': () => ({
      transports: { a: kafka({ client: { sasl: { password: CANARY.saslPassword } } as never }) },
    }),
  };
  for (const [what, made] of Object.entries(wrong))
    await seen.failure(`start: ${what}`, async () => {
      const app = await application(dataSource, { transports: { quiet: new Silent() }, ...(made() as object) });
      await app.close();
    });
  const noPassword = await new DataSource({ ...settings.database }).initialize(); // its options are changed below
  Object.assign(noPassword.options, {
    url: settings.database.url.replace(CANARY.databasePassword, `${CANARY.databasePassword}x`),
  });
  await seen.failure('start: the relay’s own connection is refused', () =>
    application(noPassword, { transports: { quiet: new Silent() } }),
  );
  await noPassword.destroy();
}

/** A5, A7, E10, F5: tables full of secrets that an application does not start on. */
async function refusedTables(dataSource: DataSource, admin: DataSource): Promise<void> {
  const transports = { local: inProcess(), quiet: new Silent() };
  const refused = (what: string, on = dataSource, more: Partial<OutboxOptions> = {}) =>
    seen.failure(`start: ${what}`, () => application(on, { transports, defaultTransport: 'local', ...more }));
  const changed = async (what: string, change: string, back: string, more?: Partial<OutboxOptions>): Promise<void> => {
    await admin.query(change);
    await refused(what, dataSource, more);
    await admin.query(back);
  };
  const column = 'alter table outbox_parked rename column';
  const create = { database: { setup: 'create' } } as const;
  await changed('E10: a column', `${column} headers to gone`, `${column} gone to headers`);
  await changed('E10: a column, create', `${column} headers to gone`, `${column} gone to headers`, create);
  await refused('other settings', dataSource, { buckets: 7 });
  if (settings.admin.type !== 'postgres') {
    const engine = 'alter table outbox_dedup engine =';
    return changed('F5: an engine', `${engine} MyISAM`, `${engine} InnoDB`);
  }
  const sequence = 'alter sequence outbox_ready_seq_seq cache';
  await changed('A5: a sequence', `${sequence} 10`, `${sequence} 1`);
  const extra = { options: '-c default_transaction_read_only=on' };
  const readOnly = await new DataSource({ ...settings.database, extra } as DataSourceOptions).initialize();
  await refused('A7: read-only sessions', readOnly);
  await readOnly.destroy();
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    console.log('=== the test itself failed', error);
    process.exit(1);
  },
);
