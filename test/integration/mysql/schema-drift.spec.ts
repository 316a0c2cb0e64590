import { TABLE_NAMES } from '../../../lib/store/names.js';
import { spawnSync } from 'node:child_process';
import { createConnection } from 'mysql2/promise';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { SchemaSettings } from '../../../lib/store/outbox-store.js';
import { openStore } from '../../support/open-store.js';
import { outboxMigrations, outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { canStart } from '../../support/own-database.js';
import { DATABASE } from '../../support/postgres-store.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const UUID = `char(36) character set ascii collate ascii_bin not null default`;
/** MySQL writes a default down without its quotes, with its charset, and in capitals. */
const bare = (text: string): string => text.toLowerCase().replaceAll(/_utf8mb4|\\|'/g, '');
const statements = (sql: string): string[] => sql.split(/;\n\n?(?=\S|$)/).filter((text) => text.trim() !== '');

describeOnMysqlFamily('tables that are not as they were made', (kind) => {
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

  it.each([
    ['a literal', 'ready', `alter version set default 2`, 'version has default 2, not 1'],
    [
      'a text',
      'ready',
      `alter content_type set default 'text/plain'`,
      `content_type has default 'text/plain', not 'application/json'`,
    ],
    ['a state that is checked', 'parked', 'alter state set default 2', 'state has default 2, not 1'],
    [
      'a time',
      'leases',
      `alter expires_at set default '2030-01-01 00:00:00'`,
      `expires_at has default '2030-01-01 00:00:00.000000', not '1970-01-01 00:00:00'`,
    ],
    [
      'a time of the session’s zone',
      'ready',
      'modify created_at datetime(6) not null default current_timestamp(6)',
      'created_at has default current_timestamp(6), not (utc_timestamp(6))',
    ],
    [
      'a time of another precision',
      'dedup',
      'modify created_at datetime(6) not null default (utc_timestamp(3))',
      'created_at has default utc_timestamp(3), not (utc_timestamp(6))',
    ],
    [
      'an id that is no UUIDv7',
      'ready',
      `modify id ${UUID} (uuid())`,
      'ready.id has default uuid(), not (lower(concat(',
    ],
    [
      'a bucket among others',
      'ready',
      'modify bucket smallint not null default (conv(left(sha2(coalesce(`key`, id), 256), 4), 16, 10) % 64)',
      '64), not ((conv(left(sha2(coalesce(`key`, id), 256), 4), 16, 10) % 32))',
    ],
    ['a bucket for all', 'parked', 'alter bucket set default 0', 'parked.bucket has default 0, not ((conv('],
    [
      'another column',
      'ready',
      `modify type varchar(255) not null default ('topic')`,
      `type has default 'topic', not (topic)`,
    ],
    [
      'no number of its own',
      'parked',
      'modify parked_id bigint unsigned not null default 0',
      'parked_id has no default',
    ],
  ])('E10: %s as a default, where another one belongs: refused', async (_what, table, change, words) => {
    await stores.application.query(`alter table outbox_${table} ${change}`);
    const found = await refusal();
    expect(found).toMatch(/^SCHEMA_MISMATCH /);
    expect(bare(found)).toContain(bare(words));
    await mend(found);
    expect(await refusal()).toBe('accepted');
  });

  it('I7: what a start says of a table, a column, a key or the view is what mends it', async () => {
    for (const change of [
      'drop view outbox_messages',
      'create or replace view outbox_messages as select id from outbox_ready',

      'alter table outbox_dedup engine = MyISAM',
      'alter table outbox_archive default charset utf8mb3',
      'alter table outbox_ready modify topic varchar(100) character set utf8mb3 null',
      'alter table outbox_parked drop last_error, drop key by_key',
      'alter table outbox_ready drop key by_seq, add key by_seq (seq), add tenant int not null',
      'alter table outbox_leases drop primary key, add primary key (bucket, transport)',
      'alter table outbox_parked drop key by_id, add unique key by_id (id, transport)',
      'alter table outbox_ready drop constraint outbox_ready_limits',
    ]) {
      await stores.application.query(change);
      const found = await refusal();
      expect([change, found]).toEqual([change, expect.stringMatching(/^SCHEMA_MISMATCH /)]);
      await mend(found);
      expect([change, await refusal()]).toEqual([change, 'accepted']);
    }
  });

  /** Does what stands in parentheses, and nothing else. */
  async function mend(refused: string): Promise<void> {
    const problems = (refused.split('release needs: ')[1] ?? '').split('. Do what stands')[0]?.split('; ') ?? [];
    for (const problem of problems) {
      const [, sql, up] = /\(run(?:: (.*)|( the up of outboxSql\(\) again))\)$/.exec(problem) ?? [];
      expect([problem, sql ?? up]).toEqual([problem, expect.any(String)]); // each says how
      for (const text of sql === undefined ? statements(outboxSql('mysql', stores.settings).up) : [sql])
        await stores.application.query(text);
    }
  }

  it('E10: a view that is missing, or shows other columns: refused, and made again by `create`', async () => {
    const store = stores.open();
    for (const [change, words] of [
      ['drop view outbox_messages', /outbox_messages` is missing/],
      [
        'create or replace view outbox_messages as select id from outbox_ready',
        /outbox_messages` is another one \(.*'state'/,
      ],
    ] as const) {
      await stores.application.query(change);
      expect(await refusal()).toMatch(words);
      await store.setup.create(stores.settings);
      expect(await refusal()).toBe('accepted');
    }
    await store.close();
  });

  it('E10: setup "create" refuses what it cannot mend by adding, and tables of other settings before it touches them', async () => {
    const create = async (other: Partial<SchemaSettings> = {}): Promise<string> => {
      const settings = { ...stores.settings, ...other };
      const store = openStore(stores.application, { ...settings, onPublished: 'delete', options: DATABASE });
      return store.setup
        .create(settings)
        .then(() => 'made', String)
        .finally(() => store.close());
    };
    await stores.application.query('alter table outbox_ready alter version set default 2');
    expect(await create()).toMatch(/version has default 2, not 1.*"create" adds what is missing/s);
    await stores.application.query('alter table outbox_ready alter version set default 1');
    await stores.application.query('alter table outbox_parked rename column last_error to mine');
    expect(await create()).toMatch(/outbox_parked.*last_error.*missing.*"create" adds what is missing/s);
    await stores.application.query('alter table outbox_parked rename column mine to last_error');
    expect(await create({ buckets: 7 })).toContain('buckets is 7 in the options and 32');
    expect(await create({ ordering: 'strict' })).toContain('ordering is strict in the options and key');
    expect(await stores.application.query(`show tables like '%key_locks'`)).toEqual([]);
    await stores.application.query('delete from outbox_meta'); // as if who made them had died before the last statement
    expect(await create()).toBe('made');
    expect(await refusal()).toBe('accepted');
  });

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
