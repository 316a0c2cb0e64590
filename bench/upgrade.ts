/**
 * What others wait for while tables of the first version that publishes on a server become today's, and back, under an
 * application of that version.
 *   npm run bench -- upgrade [postgres|mariadb|mysql] [rows]      needs the server's OUTBOX_TEST_…_URL
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { outboxMigrations } from '../lib/data-layers/typeorm/index.js';
import { SCHEMA_VERSION } from '../lib/store/names.js';
import { smoke } from './support/measure.js';
import { OldRelease, ReleaseProcess, RELEASES } from '../test/processes/release.js';
import { createTestDatabase } from '../test/support/databases.js';
import type { DatabaseKind } from '../test/support/services.js';
import { fill, fillingOf } from '../test/support/version-1.js';

const kind = (process.argv[2] ?? 'postgres') as DatabaseKind;
const rows = Number(process.argv[3] ?? 1_000_000);
const BUCKETS = 32;
/** Milliseconds of the same without a migration. */
const CALM = smoke(10_000, 500);

const key = kind === 'postgres' ? 'key' : '`key`';
const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
const content = `bucket, id, topic, type, ${key}, payload`;
const values = `0, ${id}, 'probe', 'probe', 'probe', '1'`;
const later = kind === 'postgres' ? `now() + interval '1 day'` : 'utc_timestamp(6) + interval 1 day';
/** What takes the same lock of a table as whoever uses it. */
const PROBES: Readonly<Record<string, string>> = {
  ready: `insert into outbox_ready (${content}) values (${values})`,
  parked: `insert into outbox_parked (state, due_at, ${content}) values (1, ${later}, ${values})`,
  dedup:
    kind === 'postgres'
      ? `insert into outbox_dedup (dedup_key, id) values (${id}::text, ${id})`
      : `insert into outbox_dedup (dedup_key, id, bucket, claim) values (${id}, ${id}, 0, unhex('00'))`,
  leases: 'update outbox_leases set epoch = epoch where transport = -1',
};

/** Longest time of a transaction on each table, in milliseconds, while `work` goes on. */
async function longest(db: DataSource, work: () => Promise<unknown>): Promise<Record<string, number>> {
  const most: Record<string, number> = {};
  let done = false;
  const probe = async (table: string, sql: string): Promise<void> => {
    while (!done) {
      const from = performance.now();
      await db.query(sql);
      most[table] = Math.round(Math.max(most[table] ?? 0, performance.now() - from));
      await pause(2);
    }
  };
  const probes = Object.entries(PROBES).map(([table, sql]) => probe(table, sql));
  const from = performance.now();
  await work();
  most['took'] = Math.round(performance.now() - from);
  done = true;
  await Promise.all(probes);
  return most;
}

const { commit, version } = RELEASES[kind === 'mysql' ? 'version 2' : 'version 1'];
const old = OldRelease.build(commit);
async function goBack(): Promise<void> {
  for (let at: number = SCHEMA_VERSION; at > version; at -= 1) await db.undoLastMigration();
}

const folder = mkdtempSync(join(tmpdir(), 'outbox-upgrade-'));
const database = await createTestDatabase(kind);
const settings = {
  path: old.path,
  url: database.url,
  ledger: join(folder, 'ledger'),
  committed: join(folder, 'committed'),
  buckets: BUCKETS,
};
for (const file of [settings.ledger, settings.committed]) writeFileSync(file, '');
const migrations = outboxMigrations({ buckets: BUCKETS });
const db = await new DataSource({ ...database.options, migrations } as DataSourceOptions).initialize();
try {
  await ReleaseProcess.start({ ...settings, migrates: true }).heard('migrated');
  await fill(db, kind, fillingOf(rows), BUCKETS);
  const application = await ReleaseProcess.run(settings);
  const result = {
    bench: 'upgrade',
    kind,
    rows,
    from: version,
    unit: 'ms',
    calm: await longest(db, () => pause(CALM)),
    up: await longest(db, () => db.runMigrations()),
    down: await longest(db, goBack),
    errors: application.errors.length,
    writer: 0,
  };
  await application.stop();
  result.writer = Math.round(await application.heard('longest'));
  console.log(JSON.stringify(result));
} finally {
  await db.destroy();
  await database.drop();
  old.remove();
  rmSync(folder, { recursive: true, force: true });
}
