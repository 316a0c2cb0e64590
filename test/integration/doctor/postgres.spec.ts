import { TABLE_NAMES } from '../../../lib/store/names.js';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import {
  Applications,
  build,
  CollectingTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { diagnose, follow, isWell, operator, problem, problems } from '../../support/doctor.js';
import { canStart, startOwnPostgres, type OwnPostgres } from '../../support/own-database.js';
import { PgBouncer, type PoolMode } from '../../support/pgbouncer.js';
import { describeUnlessMissing } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'the doctor on a PostgreSQL of its own', () => {
  let server: OwnPostgres;
  let database: TestDatabase;
  let admin: DataSource;
  let name: string;
  const applications = new Applications();
  beforeAll(async () => {
    server = await startOwnPostgres();
    database = await createTestDatabase('postgres', server.url);
    name = new URL(database.url).pathname.slice(1);
    admin = await operator(database);
  });
  afterEach(() => applications.close());
  afterAll(async () => {
    await admin?.destroy();
    server?.stop();
  });
  const start = (options: Partial<OutboxOptions> = { relay: false }, at: TestDatabase = database) =>
    applications.start(build([typeOrm(at), OutboxModule.forRoot(quiet(options))]));
  /** The same database by another way, or for another login. */
  const by = (url: string): TestDatabase => ({ ...database, url, options: { type: 'postgres', url } });

  it('finds nothing above a note while a relay publishes', async () => {
    const transport = new CollectingTransport();
    const app = await start({ transports: { default: transport } });
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('well'));
    await until(() => transport.ids.length === 1);
    await until(async () => ['ok', 'note'].includes((await diagnose(app)).severity));
    expect(problems(await diagnose(app), 'not-asked')).toEqual([]);
  });

  it.each([
    ['durability', 'synchronous_commit', 'off', 'warning'],
    ['read-only', 'default_transaction_read_only', 'on', 'error'],
  ])('%s: %s for the database', async (code, setting, value, severity) => {
    const app = await start();
    await admin.query(`alter database ${name} set ${setting} = ${value}`);
    const finding = await problem(app, code);
    expect(finding.severity).toBe(severity);
    expect(finding.text).toMatch(setting);
    await admin.query(`alter database ${name} reset ${setting}`);
    await isWell(app, code);
  });

  it.each([
    ['durability', 'fsync', 'error'],
    ['durability', 'full_page_writes', 'error'],
    ['vacuum', 'autovacuum', 'warning'],
    ['vacuum', 'track_counts', 'warning'],
  ])('%s: %s of the server, and the statements that turn it on', async (code, setting, severity) => {
    const app = await start();
    await admin.query(`alter system set ${setting} = off`);
    await admin.query('select pg_reload_conf()');
    const finding = await problem(app, code);
    expect(finding).toMatchObject({ severity, evidence: { [setting]: 'off' } });
    await follow(admin, finding);
    await isWell(app, code);
  });

  it('a table that autovacuum leaves alone', async () => {
    const app = await start();
    await admin.query('alter table outbox_ready set (autovacuum_enabled = false)');
    const finding = await problem(app, 'vacuum');
    expect(finding).toMatchObject({ severity: 'warning', evidence: { table: 'ready' } });
    await follow(admin, finding);
    await isWell(app, 'vacuum');
  });

  it('dead rows: how many, since when, and the statement that removes them', async () => {
    const app = await start();
    await admin.query('alter table outbox_parked set (autovacuum_enabled = false)');
    await admin.query(
      `insert into outbox_parked (bucket, state, id, topic, type) select 0, 4, gen_random_uuid(), 't', 't' from generate_series(1, 110000)`,
    );
    await admin.query('delete from outbox_parked');
    const finding = await problem(app, 'dead-rows');
    expect(finding).toMatchObject({
      severity: 'warning',
      evidence: { table: 'parked', deadRows: 110_000, liveRows: 0 },
    });
    await admin.query(`vacuum outbox_parked`);
    await admin.query('alter table outbox_parked reset (autovacuum_enabled)');
    await isWell(app, 'dead-rows');
  });

  it('a sequence that gives out numbers in lots', async () => {
    const app = await start();
    await admin.query('alter sequence outbox_ready_seq_seq cache 20');
    const finding = await problem(app, 'sequence');
    expect(finding).toMatchObject({ severity: 'error' });
    expect(finding.text).toMatch('cache 20');
    expect(finding.fix).toMatch(/^alter sequence "public"\."outbox_ready_seq_seq" increment 1 cache 1 no cycle$/);
    await admin.query(finding.fix as string);
    await isWell(app, 'sequence');
  });

  it('a schema in which everybody may make functions', async () => {
    const app = await start();
    await admin.query('grant create on schema public to public');
    const finding = await problem(app, 'public-create');
    expect(finding).toMatchObject({ severity: 'warning', evidence: { schema: 'public' } });
    await follow(admin, finding);
    expect(problems(await diagnose(app), 'public-create')).toEqual([]);
  });

  it('rights that a login lacks, with the grants; rows that are hidden from it; its limit of connections', async () => {
    await start();
    await admin.query('create role lacking login');
    await admin.query('grant usage on schema public to lacking');
    await admin.query(
      `grant select, insert, update on ${TABLE_NAMES.map((table) => `outbox_${table}`).join(', ')} to lacking`,
    );
    const url = new URL(database.url);
    url.username = 'lacking';
    await applications.close();
    const app = await start({ relay: 'manual', database: { setup: 'none' } }, by(url.href));
    const finding = await problem(app, 'rights');
    expect(finding).toMatchObject({ severity: 'error', evidence: { login: 'lacking', missing: 12 } });
    expect(finding.evidence['rights']).toMatch('delete on "public"."outbox_ready"');
    await admin.query((finding.fix as string).replace(/;[^;]*$/, ''));
    await isWell(app, 'rights');
    await admin.query('alter table outbox_parked enable row level security');
    const hidden = await problem(app, 'row-security');
    expect(hidden).toMatchObject({ severity: 'error', evidence: { login: 'lacking' } });
    expect(hidden.text).toMatch('outbox_parked');
    await admin.query('alter table outbox_parked disable row level security');
    expect(problems(await diagnose(app), 'row-security')).toEqual([]);
    const [{ used }] = await admin.query<[{ used: number }]>(
      `select count(*)::int as used from pg_stat_activity where usename = 'lacking'`,
    );
    await admin.query(`alter role lacking connection limit ${used + 1}`);
    const few = await problem(app, 'connections');
    expect(few).toMatchObject({ severity: 'warning', evidence: { mostConnections: used + 1 } });
    await admin.query('alter role lacking connection limit -1');
    await isWell(app, 'connections');
  });

  it('a database that does not answer, with the reason, and the rest of the report', async () => {
    const proxy = await TcpProxy.start(database.url);
    const url = new URL(database.url);
    url.host = `${proxy.host}:${proxy.port}`;
    const app = await start({ relay: false }, by(url.href));
    await proxy.close();
    const report = await diagnose(app);
    expect(report).toMatchObject({ severity: 'error', outage: null });
    expect(problems(report, 'database')).toMatchObject([{ severity: 'error' }]);
    expect(report.findings.map(({ code }) => code)).toContain('broker');
  });

  describeUnlessMissing(PgBouncer.isInstalled ? [] : ['pgbouncer'], 'behind PgBouncer', () => {
    let pooler: PgBouncer | undefined;
    afterEach(() => pooler?.stop());
    const through = async (mode: PoolMode, options: Partial<OutboxOptions> = {}) => {
      pooler = await PgBouncer.start(server.url, mode, 40);
      return start({ relay: false, ...options }, by(pooler.through(database.url)));
    };

    it('in transaction mode: seen, and that nobody can listen', async () => {
      const app = await through('transaction');
      expect(await problem(app, 'pooler')).toMatchObject({ severity: 'note', evidence: { mode: 'transaction' } });
      expect(await problem(app, 'wake-up')).toMatchObject({
        severity: 'note',
        evidence: { notifications: 'cannot listen' },
      });
    });

    it("a listener that hears nothing, as with wakeUp: 'notify' through it", async () => {
      const app = await through('transaction', { wakeUp: 'notify' });
      const finding = await problem(app, 'wake-up');
      expect(finding).toMatchObject({ severity: 'warning', evidence: { notifications: 'none arrives' } });
    });
  });
});
