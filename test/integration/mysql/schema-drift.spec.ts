import { TABLE_NAMES } from '../../../lib/store/names.js';
import { spawnSync } from 'node:child_process';
import { createConnection } from 'mysql2/promise';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { openStore } from '../../support/open-store.js';
import { outboxMigrations, outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { canStart } from '../../support/own-database.js';
import { DATABASE } from '../../support/postgres-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const statements = (sql: string): string[] => sql.split(/;\n\n?(?=\S|$)/).filter((text) => text.trim() !== '');

describeOnMysqlFamily('tables that were made in another way', (kind) => {
  const stores = new MariaDbStores(kind, { buckets: 32 });
  beforeAll(() => stores.start());
  afterAll(() => stores.stop());

  const refusal = async (application = stores.application, ordering: 'key' | 'global' = 'key'): Promise<string> => {
    const { buckets, coordination } = stores.settings;
    const settings = { buckets, ordering, coordination, onPublished: 'delete' } as const;
    const store = openStore(application, { ...settings, options: DATABASE });
    try {
      return await store.setup.check(settings).then(
        () => 'accepted',
        ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
      );
    } finally {
      await store.close();
    }
  };

  it('E10: a process without rights on the view starts, whether it is there or not', async () => {
    const [name] = (await stores.application.query('select database() as name')) as [{ name: string }];
    const admin = (sql: string) => stores.application.query(sql);
    await admin(`create user ${name.name}@'%' identified by 'pw'`);
    for (const table of TABLE_NAMES) await admin(`grant select, insert on outbox_${table} to ${name.name}@'%'`);
    const url = new URL(stores.database.url);
    [url.username, url.password] = [name.name, 'pw'];
    const least = await new DataSource({ ...stores.database.options, url: url.href } as DataSourceOptions).initialize();
    try {
      expect(await refusal(least)).toBe('accepted');
      await admin(`grant select (id) on outbox_messages to ${name.name}@'%'`);
      expect(await refusal(least)).toBe('accepted');
      await admin(`revoke select (id) on outbox_messages from ${name.name}@'%'`);
      await admin('drop view outbox_messages');
      expect(await refusal(least)).toBe('accepted');
      expect(await refusal()).toContain('is missing');
    } finally {
      await least.destroy();
      await admin(`drop user ${name.name}@'%'`);
      const store = stores.open();
      await store.setup.create(stores.settings);
      await store.close();
    }
  });

  /** How the session was that made the tables: it decides how the server writes their defaults down. */
  const SESSIONS: readonly (readonly [charset: string, sqlMode: string])[] = [
    ['utf8mb4', 'STRICT_TRANS_TABLES'],
    ['latin1', ''],
    ['utf8mb3', 'ANSI_QUOTES'],
    ['utf8mb4', 'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'],
  ];
  it.each(['key', 'global'] as const)(
    'E10: tables of every way to make them are accepted, also restored from a dump: %s',
    async (ordering) => {
      const settings = { ...stores.settings, ordering };
      const { up } = outboxSql('mysql', settings);
      for (const [charset, sqlMode] of SESSIONS) {
        await within(async (database) => {
          const session = await createConnection({ uri: database.url });
          await session.query(`set names ${charset}`);
          await session.query('set sql_mode = ?', [sqlMode]);
          for (const text of statements(up)) await session.query(text.replaceAll('\n', '\r\n  '));
          await session.end();
          expect([charset, sqlMode, await look(database, ordering)]).toEqual([charset, sqlMode, 'accepted']);
          if (kind === 'mysql' || !canStart.mariadb) return; // the program that dumps is not here either
          await within(async (copy) => {
            dump(database, copy);
            expect(await look(copy, ordering)).toBe('accepted');
          });
        });
      }
      await within(async (database) => {
        const migrations = outboxMigrations(settings);
        const db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
        await db.runMigrations();
        expect(await refusal(db, ordering)).toBe('accepted');
        const ours = kind === 'mysql' ? '' : `alter headers set default '{}', `; // MySQL takes none of a text
        await db.query(`alter table outbox_ready ${ours}add tenant int not null default 7`);
        expect(await refusal(db, ordering)).toBe('accepted');
        await db.destroy();
      });
    },
  );

  async function look(database: TestDatabase, ordering: 'key' | 'global'): Promise<string> {
    const application = await new DataSource(database.options).initialize();
    try {
      return await refusal(application, ordering);
    } finally {
      await application.destroy();
    }
  }

  async function within(work: (database: TestDatabase) => Promise<void>): Promise<void> {
    const database = await createTestDatabase(kind);
    try {
      await work(database);
    } finally {
      await database.drop();
    }
  }

  function dump(from: TestDatabase, to: TestDatabase): void {
    const login = ({ url }: TestDatabase): string[] => {
      const { hostname, port, username, password, pathname } = new URL(url);
      const secret = password === '' ? [] : [`--password=${password}`];
      return [`--host=${hostname}`, `--port=${port || 3306}`, `--user=${username}`, ...secret, pathname.slice(1)];
    };
    const { stdout, stderr } = spawnSync('mariadb-dump', ['--no-defaults', ...login(from)], { encoding: 'utf8' });
    const restored = spawnSync('mariadb', ['--no-defaults', ...login(to)], { input: stdout, encoding: 'utf8' });
    expect([stderr, restored.stderr]).toEqual(['', '']);
  }
});
