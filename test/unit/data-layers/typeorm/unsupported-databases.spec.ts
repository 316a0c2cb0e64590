import { DataSource } from 'typeorm';
import type { SqlConnection, SqlDatabase } from '../../../../lib/store/executor.js';
import { OutboxModule } from '../../../../lib/index.js';
import { checkServer } from '../../../../lib/store/postgres/schema/server.js';
import { PostgresStore } from '../../../../lib/store/postgres/store.js';
import { severalPrimaries } from '../../../../lib/store/mysql/schema/server.js';
import type { StoreSettings } from '../../../../lib/store/names.js';
import { outboxMigrations } from '../../../../lib/data-layers/typeorm/index.js';
import { build, failure, quiet } from '../../../nest/support/app.js';

describe('a database that cannot hold an outbox', () => {
  /** As TypeORM makes it, but for what its constructor loads, the driver's package: nothing may ask for that. */
  const unconnected = (type: string): DataSource =>
    Object.defineProperties(Object.create(DataSource.prototype) as DataSource, {
      options: { value: { type } },
      driver: { value: {} },
      isInitialized: { value: true },
    });

  it.each(['sqlite', 'better-sqlite3', 'sqljs', 'capacitor', 'expo', 'react-native'])(
    'A9: TypeORM on SQLite (%s) is refused at start, with what there is',
    async (type) => {
      for (const setup of ['create', 'check', 'none'] as const) {
        const outbox = { ...quiet({ database: { setup } }), dataSource: unconnected(type) };
        expect(await failure(build([OutboxModule.forRoot(outbox)]))).toMatchObject({
          code: 'UNSUPPORTED_DATABASE',
          message: expect.stringContaining(`A DataSource of type ${type} cannot hold an outbox.`),
          hint: 'Use one of: postgres, mysql, mariadb.',
        });
      }
    },
  );

  it.each(['cockroachdb', 'mssql', 'oracle', 'mongodb', 'aurora-postgres'])('neither can %s', async (type) => {
    const outbox = { ...quiet(), dataSource: unconnected(type) };
    expect(await failure(build([OutboxModule.forRoot(outbox)]))).toMatchObject({ code: 'UNSUPPORTED_DATABASE' });
  });

  it('refuses a migration there', async () => {
    const [Tables] = outboxMigrations() as [ReturnType<typeof outboxMigrations>[number]];
    const runner = { connection: unconnected('better-sqlite3'), query: () => Promise.reject(new Error('asked')) };
    await expect(new Tables().up(runner as never)).rejects.toMatchObject({ code: 'UNSUPPORTED_DATABASE' });
  });
});

describe('a PostgreSQL', () => {
  /** The one answer of a server that does not run here. */
  const server = (number: string, version: string): SqlConnection =>
    ({
      run: async () => ({ rows: [[number, version, 'f', 'f', 'UTF8']], affected: 0 }),
    }) as Partial<SqlConnection> as SqlConnection;
  const setup = (connection: SqlConnection) => {
    const database = { connection: () => connection } as Partial<SqlDatabase> as SqlDatabase;
    return new PostgresStore(database, { schema: 'public', prefix: 'outbox_' } as StoreSettings).setup;
  };

  it.each([
    ['90624', '9.6.24'],
    ['120022', '12.22 (Debian 12.22-1.pgdg120+1)'],
  ])('of version %s is too old: nothing else is asked', async (number, version) => {
    const settings = { buckets: 32, ordering: 'key', coordination: 'buckets' } as const;
    const refusal = { code: 'UNSUPPORTED_DATABASE', hint: 'The outbox needs PostgreSQL 13 or later.' };
    const tables = setup(server(number, version));
    for (const start of [tables.check(settings), tables.create(settings)]) {
      await expect(start).rejects.toMatchObject({
        ...refusal,
        message: expect.stringContaining(`The database is PostgreSQL ${version}.`),
      });
    }
  });

  it.each([
    ['130000', '13beta1'],
    ['180004', '18.4'],
  ])('of version %s is enough', (number, version) => checkServer(server(number, version)));
});

describe('several servers that take writes, on MariaDB and MySQL', () => {
  const GALERA = '/usr/lib/galera/libgalera_smm.so';
  it.each([
    ['an increment above 1', 3, {}, 'auto_increment_increment is 3'],
    ['Galera with an increment of 1', 1, { wsrep_on: 'ON', wsrep_provider: GALERA }, 'wsrep_on is ON (Galera)'],
    ['Galera that does not name its provider', 1, { wsrep_on: '1' }, 'wsrep_on is ON (Galera)'],
    ['a session apart from its cluster', 1, { wsrep_on: 'OFF', wsrep_provider: GALERA }, undefined],
    ['a build for Galera without a provider', 1, { wsrep_on: 'ON', wsrep_provider: 'none' }, undefined],
    ['MariaDB by itself', 1, { wsrep_on: 'OFF', wsrep_provider: 'none' }, undefined],
    ['MySQL, which has no such variables', 1, {}, undefined],
  ])('A5: are told by: %s', (_what, increment, variables, told) => {
    expect(severalPrimaries(increment, new Map(Object.entries(variables)))).toBe(told);
  });
});
