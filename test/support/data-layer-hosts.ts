import type { TransactionalAdapter } from '@nestjs-cls/transactional';
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm';
import { TransactionalAdapterPrisma } from '@nestjs-cls/transactional-adapter-prisma';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { EntitySchema } from '@mikro-orm/core';
import { MikroORM as MysqlOrm } from '@mikro-orm/mysql';
import { MikroORM as PostgresOrm, type EntityManager as MikroManager } from '@mikro-orm/postgresql';
import { PrismaMariaDb } from '@prisma/adapter-mariadb';
import { PrismaPg } from '@prisma/adapter-pg';
import { sql } from 'drizzle-orm';
import { drizzle as drizzleOnMysql } from 'drizzle-orm/mysql2';
import { drizzle } from 'drizzle-orm/node-postgres';
import { knex, type Knex } from 'knex';
import { CompiledQuery, Kysely, MysqlDialect, PostgresDialect, type Transaction as KyselyTransaction } from 'kysely';
import { createPool as createMariadbPool } from 'mariadb';
import { createPool as createCorePool } from 'mysql2';
import { createPool, type PoolConnection } from 'mysql2/promise';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { knexLayer } from 'nestjs-outbox/knex';
import { kyselyLayer } from 'nestjs-outbox/kysely';
import { mikroOrmLayer } from 'nestjs-outbox/mikro-orm';
import { mysql2Layer } from 'nestjs-outbox/mysql2';
import { pgLayer } from 'nestjs-outbox/pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { typeOrmLayer } from 'nestjs-outbox/typeorm';
import { Pool, type PoolClient } from 'pg';
import { DataSource, type EntityManager } from 'typeorm';
import type { OutboxDataLayer } from '../../lib/index.js';
import { unshaken } from './data-layer.js';
import type { TestDatabase } from './databases.js';
import { MysqlPrismaClient, PrismaClient, type Transaction as PrismaTransaction } from './prisma/client.js';
import { DATABASES, type DatabaseKind } from './services.js';

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

function prismaOn({ kind, url }: TestDatabase) {
  if (kind === 'postgres') {
    const pool = unshaken(new Pool({ connectionString: url }));
    return { pool, db: new PrismaClient({ adapter: new PrismaPg(pool) }) };
  }
  const { hostname: host, port, username: user, password, pathname } = new URL(url);
  const given = {
    host,
    port: Number(port),
    user,
    password,
    database: pathname.slice(1),
    allowPublicKeyRetrieval: true,
  };
  const pool = createMariadbPool(given);
  return { pool, db: new MysqlPrismaClient({ adapter: new PrismaMariaDb(pool) }) };
}

export async function prismaHost(database: TestDatabase): Promise<Hosted> {
  const { pool, db } = prismaOn(database);
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

export async function drizzleHost({ kind, url }: TestDatabase): Promise<Hosted> {
  const onMysql = () =>
    drizzleOnMysql(createPool(url)) as object as ReturnType<typeof drizzle<Record<string, never>, Pool>>;
  const db = kind === 'postgres' ? drizzle(unshaken(new Pool({ connectionString: url }))) : onMysql();
  return {
    dataLayer: drizzleLayer(db),
    db,
    adapter: new TransactionalAdapterDrizzleOrm({ drizzleInstanceToken: DB }),
    run: async (tx, statement) => (tx as typeof db).execute(sql.raw(statement)),
    close: () => db.$client.end(),
  };
}

export async function knexHost({ kind, url }: TestDatabase): Promise<Hosted> {
  const db = knex({ client: kind === 'postgres' ? 'pg' : 'mysql2', connection: url });
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
}

const Nothing = new EntitySchema<{ id: number }>({
  name: 'Nothing',
  properties: { id: { type: 'number', primary: true } },
});

export async function mikroOrmHost({ kind, url }: TestDatabase): Promise<Hosted> {
  const MikroORM = kind === 'postgres' ? PostgresOrm : (MysqlOrm as object as typeof PostgresOrm);
  const orm = await MikroORM.init({ clientUrl: url, entities: [Nothing] });
  return {
    dataLayer: mikroOrmLayer(orm),
    db: orm.em,
    adapter: ownAdapter<MikroManager>(
      orm.em,
      (work) => orm.em.transactional(work),
      (em, work) => em.transactional(work),
    ),
    run: async (tx, statement) => {
      const em = tx as MikroManager;
      return em.getConnection().execute(statement, [], 'run', em.getTransactionContext());
    },
    close: () => orm.close(),
  };
}

export async function kyselyHost({ kind, url }: TestDatabase): Promise<Hosted> {
  const onPostgres = kind === 'postgres';
  const pool = onPostgres ? unshaken(new Pool({ connectionString: url })) : createCorePool(url);
  const dialect = onPostgres
    ? new PostgresDialect({ pool: pool as Pool })
    : new MysqlDialect({ pool: pool as ReturnType<typeof createCorePool> });
  const db = new Kysely<object>({ dialect });
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

type Library = (database: TestDatabase) => Promise<Hosted>;
const ON_ALL: Readonly<Record<string, Library>> = {
  TypeORM: typeOrmHost,
  Prisma: prismaHost,
  Drizzle: drizzleHost,
  Knex: knexHost,
  Kysely: kyselyHost,
  MikroORM: mikroOrmHost,
};

/** Each data layer on each database that it is for. */
export const HOSTS: readonly (readonly [string, DatabaseKind, Library])[] = DATABASES.flatMap((kind) => {
  const drivers = kind === 'postgres' ? { pg: pgHost } : { mysql2: mysql2Host };
  return Object.entries({ ...ON_ALL, ...drivers }).map(([name, library]) => [name, kind, library] as const);
});
