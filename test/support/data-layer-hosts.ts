import type { TransactionalAdapter } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { TransactionalAdapterPrisma } from '@nestjs-cls/transactional-adapter-prisma';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { PrismaPg } from '@prisma/adapter-pg';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { knex, type Knex } from 'knex';
import { CompiledQuery, Kysely, PostgresDialect, type Transaction as KyselyTransaction } from 'kysely';
import { createPool, type PoolConnection } from 'mysql2/promise';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { knexLayer } from 'nestjs-outbox/knex';
import { kyselyLayer } from 'nestjs-outbox/kysely';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { pgLayer } from 'nestjs-outbox/pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { typeOrmLayer } from 'nestjs-outbox/typeorm';
import { Pool, type PoolClient } from 'pg';
import { DataSource, type EntityManager } from 'typeorm';
import type { OutboxDataLayer } from '../../lib/index.js';
import { unshaken } from './data-layer.js';
import type { TestDatabase } from './databases.js';
import { PrismaClient, type Transaction as PrismaTransaction } from './prisma/client.js';

/** The injection token of the library's own object. */
export const DB = Symbol('db');
// eslint-disable-next-line typescript/no-explicit-any -- as the plugin takes those of all libraries
type Adapter = TransactionalAdapter<any, any, any>;

/** A library on a database, and nestjs-cls's adapter of it. */
export interface Hosted {
  readonly dataLayer: OutboxDataLayer;
  readonly db: object;
  readonly adapter: Adapter;
  /** In the transaction, or outside of any where it is the library's own object. */
  run(tx: object, statement: string): Promise<unknown>;
  close(): Promise<unknown>;
}

/** Where nestjs-cls has none, an adapter is this. */
function ownAdapter<Tx extends object>(
  db: object,
  begin: (work: (tx: Tx) => Promise<unknown>) => Promise<unknown>,
  nest: (tx: Tx, work: (tx: Tx) => Promise<unknown>) => Promise<unknown>,
): Adapter {
  return {
    connection: db,
    optionsFactory: () => ({
      wrapWithTransaction: (_options, work, setTx) =>
        begin((tx) => {
          setTx(tx);
          return work() as Promise<unknown>;
        }),
      wrapWithNestedTransaction: (_options, work, setTx, outer) =>
        nest(outer as Tx, (tx) => {
          setTx(tx);
          return work() as Promise<unknown>;
        }),
      getFallbackInstance: () => db,
    }),
  };
}

/** A library's transaction by statements. */
async function between(
  send: (statement: string) => Promise<unknown>,
  [begin, end, back]: readonly [string, string, string],
  work: () => Promise<unknown>,
): Promise<unknown> {
  await send(begin);
  try {
    const result = await work();
    await send(end);
    return result;
  } catch (error) {
    await send(back);
    throw error;
  }
}
const WHOLE = ['begin', 'commit', 'rollback'] as const;
const SAVEPOINT = ['savepoint one', 'release savepoint one', 'rollback to savepoint one'] as const;

export async function typeOrmHost({ options }: TestDatabase): Promise<Hosted & { db: DataSource }> {
  const db = await new DataSource(options).initialize();
  return {
    dataLayer: typeOrmLayer(db),
    db,
    adapter: new TransactionalAdapterTypeOrm({ dataSourceToken: DB }),
    run: (tx, statement) => (tx as EntityManager).query(statement),
    close: () => db.destroy(),
  };
}

export async function prismaHost({ url }: TestDatabase): Promise<Hosted> {
  const pool = unshaken(new Pool({ connectionString: url }));
  const db = new PrismaClient({ adapter: new PrismaPg(pool) });
  return {
    dataLayer: prismaLayer(db, pool),
    db,
    adapter: new TransactionalAdapterPrisma({
      prismaInjectionToken: DB,
      sqlFlavor: 'postgresql',
      defaultTxOptions: { maxWait: 300_000, timeout: 300_000 },
    }) as Adapter,
    run: (tx, statement) => (tx as PrismaTransaction).$executeRawUnsafe(statement),
    close: () => db.$disconnect().then(() => pool.end()),
  };
}

export async function drizzleHost({ url }: TestDatabase): Promise<Hosted> {
  const pool = unshaken(new Pool({ connectionString: url }));
  const db = drizzle(pool);
  return {
    dataLayer: drizzleLayer(db),
    db,
    adapter: new TransactionalAdapterDrizzleOrm({ drizzleInstanceToken: DB }),
    run: async (tx, statement) => (tx as typeof db).execute(sql.raw(statement)),
    close: () => pool.end(),
  };
}

export const knexHost =
  (client: 'pg' | 'mysql2') =>
  async ({ url }: TestDatabase): Promise<Hosted> => {
    const db = knex({ client, connection: url });
    return {
      dataLayer: knexLayer(db),
      db,
      adapter: ownAdapter<Knex>(
        db,
        (work) => db.transaction(work),
        (trx, work) => trx.transaction(work),
      ),
      run: async (tx, statement) => (tx as Knex).raw(statement),
      close: () => db.destroy(),
    };
  };

export async function kyselyHost({ url }: TestDatabase): Promise<Hosted> {
  const pool = unshaken(new Pool({ connectionString: url }));
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
  const run = (tx: object, statement: string): Promise<unknown> =>
    (tx as Kysely<object>).executeQuery(CompiledQuery.raw(statement));
  return {
    dataLayer: kyselyLayer(db, { pool }),
    db,
    adapter: ownAdapter<KyselyTransaction<object>>(
      db,
      (work) => db.transaction().execute(work),
      (trx, work) =>
        between(
          (text) => run(trx, text),
          SAVEPOINT,
          () => work(trx),
        ),
    ),
    run,
    close: () => db.destroy(),
  };
}

export async function pgHost({ url }: TestDatabase): Promise<Hosted> {
  const db = unshaken(new Pool({ connectionString: url }));
  return overDriver(db, pgLayer(db), () => db.connect());
}

export async function mysql2Host({ url }: TestDatabase): Promise<Hosted> {
  const db = createPool(url);
  return overDriver(db, mysql2Layer(db), () => db.getConnection());
}

function overDriver(
  db: { end(): Promise<unknown> },
  dataLayer: OutboxDataLayer<PoolClient> | OutboxDataLayer<PoolConnection>,
  connect: () => Promise<{ query(statement: string): Promise<unknown>; release(): void }>,
): Hosted {
  const run = (tx: object, statement: string): Promise<unknown> => (tx as PoolClient).query(statement);
  return {
    dataLayer: dataLayer as OutboxDataLayer<object> as OutboxDataLayer,
    db,
    adapter: ownAdapter<object>(
      db,
      async (work) => {
        const client = await connect();
        const send = (text: string): Promise<unknown> => client.query(text);
        return between(send, WHOLE, () => work(client)).finally(() => client.release());
      },
      (client, work) =>
        between(
          (text) => run(client, text),
          SAVEPOINT,
          () => work(client),
        ),
    ),
    run,
    close: () => db.end(),
  };
}
