import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { outboxMigrations } from '../../lib/data-layers/typeorm/index.js';
import { SCHEMA_VERSION } from '../../lib/store/names.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith, describeWithCommit } from '../support/services.js';
import { until } from '../support/until.js';
import { fill, fillingOf } from '../support/version-1.js';
import { OldRelease, ReleaseProcess, RELEASES, type ReleaseSettings } from './release.js';

const BUCKETS = 8;
/** Of every state. */
const ROWS = Number(process.env['OUTBOX_TEST_UPGRADE_ROWS'] ?? 10_000);
const PARKED = ROWS / 10;
/** Milliseconds: a newcomer is given its first buckets, and all that was filled is published. */
const WHILE = 60_000 + ROWS / 2;

describe('the releases to upgrade from', () => {
  it('are one for each earlier version of the tables', () => {
    const earlier = Array.from({ length: SCHEMA_VERSION - 1 }, (_, n) => n + 1);
    expect(Object.values(RELEASES).map(({ version }) => version)).toEqual(earlier);
  });
});

describe.each(Object.entries(RELEASES))(
  'An upgrade from %s, and back, while both are used',
  (_, { commit, databases, version }) => {
    describeWithCommit(commit, 'with that release', () => {
      let old: OldRelease;
      beforeAll(() => {
        old = OldRelease.build(commit);
      });
      afterAll(() => old.remove());

      describe.each(databases)('on %s', (kind) => {
        describeWith(kind, 'one after the other', () => {
          let database: TestDatabase;
          let db: DataSource;
          let folder: string;
          const running: ReleaseProcess[] = [];
          beforeEach(async () => {
            database = await createTestDatabase(kind);
            const migrations = outboxMigrations({ buckets: BUCKETS });
            db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
            folder = mkdtempSync(join(tmpdir(), 'outbox-upgrade-'));
            for (const name of ['ledger', 'committed']) writeFileSync(join(folder, name), '');
          });
          afterEach(async () => {
            for (const each of running.splice(0)) await each.stop('SIGKILL');
            await db.destroy();
            await database.drop();
            rmSync(folder, { recursive: true, force: true });
          });

          const settingsOf = (more: Partial<ReleaseSettings>): ReleaseSettings => ({
            url: database.url,
            ledger: join(folder, 'ledger'),
            committed: join(folder, 'committed'),
            buckets: BUCKETS,
            ...more,
          });
          async function start(more: Partial<ReleaseSettings> = {}): Promise<ReleaseProcess> {
            const started = ReleaseProcess.start(settingsOf(more));
            running.push(started);
            await started.heard('ready');
            return started;
          }
          /** What a start says that is refused. */
          async function refusal(more: Partial<ReleaseSettings> = {}): Promise<string> {
            const refused = ReleaseProcess.start(settingsOf(more));
            running.push(refused);
            return refused.heard('failed');
          }
          /** It publishes from now on. */
          async function publishes({ pid }: ReleaseProcess): Promise<void> {
            const { size } = statSync(join(folder, 'ledger'));
            const mine = new RegExp(` ${pid}$`, 'm');
            await until(() => mine.test(read('ledger', size)), WHILE, 100);
          }
          const read = (name: string, from = 0): string => readFileSync(join(folder, name)).subarray(from).toString();
          async function states(): Promise<Record<string, number>> {
            const rows = await db.query(
              `select 'parked' as s, count(*) as n from outbox_parked where topic = 'filled' and state <> 0
             union all select 'archive', count(*) from outbox_archive union all select 'dedup', count(*) from outbox_dedup
             where ${kind === 'postgres' ? 'dedup_key' : 'convert(dedup_key using utf8mb4)'} like 'filled %'`,
            );
            return Object.fromEntries(rows.map(({ s, n }: { s: string; n: unknown }) => [s, Number(n)]));
          }
          const parked = async (): Promise<number> => (await states())['parked'] as number;
          /** How many messages each key has, numbered from 1. */
          function written(): Map<string, number> {
            const keys = new Map<string, number>(version === 1 ? [['stray', 1]] : []);
            for (let i = 1; i <= ROWS * 0.4; i += 1) keys.set(`r${i % 1000}`, (keys.get(`r${i % 1000}`) ?? 0) + 1);
            for (let i = 1; i <= PARKED; i += 1) keys.set(`s${i}`, 1).set(`w${i}`, 1).set(`d${i}`, 2);
            for (const [key, n] of lines('committed')) keys.set(key, Math.max(keys.get(key) ?? 0, n));
            return keys;
          }
          const lines = (name: string): [string, number, string][] =>
            read(name)
              .split('\n')
              .filter((line) => line !== '')
              .map((line) => {
                const [key, n, id] = line.split(' ') as [string, string, string];
                return [key, Number(n), id];
              });
          function verdict(): { outOfOrder: number; lost: number; ghosts: number } {
            const last = new Map<string, number>();
            const seen = new Set<string>();
            let outOfOrder = 0;
            for (const [key, n, id] of lines('ledger')) {
              if (seen.has(id)) continue;
              seen.add(id);
              if (n !== (last.get(key) ?? 0) + 1) outOfOrder += 1;
              last.set(key, Math.max(last.get(key) ?? 0, n));
            }
            const keys = written();
            const lost = [...keys].filter(([key, n]) => (last.get(key) ?? 0) < n).length;
            return { outOfOrder, lost, ghosts: [...last].filter(([key, n]) => n > (keys.get(key) ?? 0)).length };
          }

          it('B11, U6: old ones go on, new ones start beside them, and nothing is lost or out of order on either way', async () => {
            const before = { path: old.path };
            const migrated = ReleaseProcess.start(settingsOf({ ...before, migrates: true }));
            running.push(migrated);
            await migrated.heard('migrated');
            await fill(db, kind, fillingOf(ROWS), BUCKETS);
            if (version === 1) await db.query(STRAY[kind === 'postgres' ? 'postgres' : 'mysql']);
            const filled = { parked: 4 * PARKED, archive: PARKED, dedup: PARKED };

            const first = await start(before);
            expect(await refusal()).toMatch(
              new RegExp(
                `SCHEMA_MISMATCH .*version ${version}, this release needs ${SCHEMA_VERSION}.*Run the migrations`,
              ),
            );
            await publishes(first);
            await db.runMigrations();
            await publishes(first);
            expect(await states()).toEqual(filled);
            expect(await refusal(before)).toMatch(
              new RegExp(`SCHEMA_MISMATCH .*version ${SCHEMA_VERSION}.*(release needs|process has) ${version}`),
            );

            const today = await start();
            await publishes(today);
            await first.stop();
            await publishes(today);
            await db.query(`update outbox_parked set due_at = parked_at where due_at is not null`);
            await until(async () => (await parked()) === 2 * PARKED, WHILE, 200);

            const back = await start({ ...before, setup: 'none' });
            await publishes(back);
            await today.stop();
            for (let at: number = SCHEMA_VERSION; at > version; at -= 1) await db.undoLastMigration();
            await publishes(back);
            const last = await start(before);
            await back.stop();
            last.child.send('requeue');
            await until(async () => (await parked()) === 0, WHILE, 200);
            await last.stop();
            await drain(before);
            expect(verdict()).toEqual({ outOfOrder: 0, lost: 0, ghosts: 0 });
            expect([first, today, back, last].flatMap(({ errors }) => errors)).toEqual([]);
            const waits = await Promise.all([first, today, back].map((each) => each.heard('longest')));
            if (ROWS > 10_000) console.log(kind, ROWS, waits);
          }, 600_000);

          async function drain(more: Partial<ReleaseSettings>): Promise<void> {
            const drainer = await start({ ...more, writes: false });
            const count = async (): Promise<number> =>
              Number((await db.query('select count(*) as n from outbox_ready'))[0].n);
            await until(async () => (await count()) === 0, WHILE, 200);
            await drainer.stop();
          }
        });
      });
    });
  },
);

/** In a bucket that nobody reads: later versions take none. */
const STRAY = {
  postgres: `insert into outbox_ready (bucket, id, topic, type, key, payload) values (99, gen_random_uuid(), 'filled', 'filled', 'stray', '1')`,
  mysql: `insert into outbox_ready (bucket, topic, \`key\`, payload) values (99, 'filled', 'stray', '1')`,
};
