import { TABLE_NAMES } from '../../../lib/store/names.js';
import type { DataSource } from 'typeorm';
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
import { describeOnOwnMysqlFamily, type OwnNode } from '../../support/own-database.js';

describeOnOwnMysqlFamily([], 'the doctor on a server of its own', (kind, startServer) => {
  let server: OwnNode;
  let database: TestDatabase;
  let admin: DataSource;
  const applications = new Applications();
  beforeAll(async () => {
    server = await startServer(['--log-bin', '--sync-binlog=1']);
    database = await createTestDatabase(kind, server.url);
    admin = await operator(database);
  });
  afterEach(() => applications.close());
  afterAll(async () => {
    await admin?.destroy();
    await server?.stop();
  });
  const start = (options: Partial<OutboxOptions> = { relay: false }, at: TestDatabase = database) =>
    applications.start(build([typeOrm(at), OutboxModule.forRoot(quiet(options))]));
  const by = (url: string): TestDatabase => ({
    ...database,
    url,
    options: { type: kind === 'mariadb' ? 'mariadb' : 'mysql', url, timezone: 'Z' },
  });

  it('finds nothing above a note while a relay publishes', async () => {
    const transport = new CollectingTransport();
    const app = await start({ transports: { default: transport } });
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('well'));
    await until(() => transport.ids.length === 1);
    await until(async () => ['ok', 'note'].includes((await diagnose(app)).severity));
    const report = await diagnose(app);
    expect(problems(report, 'not-asked')).toEqual([]);
    expect(report.findings.map(({ code }) => code)).toContain('purge');
  });

  it.each([
    ['durability', 'innodb_flush_log_at_trx_commit', '2', '1', 'warning'],
    ['durability', 'sync_binlog', '0', '1', 'warning'],
    ['sql-mode', 'sql_mode', `''`, `'STRICT_TRANS_TABLES'`, 'warning'],
    ['read-only', 'read_only', '1', '0', 'error'],
    ['packet', 'max_allowed_packet', '1048576', '16777216', 'warning'],
    ['sequence', 'auto_increment_increment', '2', '1', 'error'],
    ['connections', 'max_connections', '10', '151', 'warning'],
  ])('%s: %s = %s of the server', async (code, setting, bad, good, severity) => {
    const app = await start();
    await admin.query(`set global ${setting} = ${bad}`);
    const more =
      setting === 'max_connections' ? await Promise.all(Array.from({ length: 6 }, () => operator(database))) : [];
    const finding = await problem(app, code);
    expect(finding).toMatchObject({ severity });
    await Promise.all(more.map((each) => each.destroy()));
    await admin.query(`set global ${setting} = ${good}`);
    await isWell(app, code);
  });

  it('rights that a login lacks, with the grants, and what it may not see', async () => {
    await start();
    const name = new URL(database.url).pathname.slice(1);
    await admin.query(`create user lacking@'%'`);
    for (const table of TABLE_NAMES)
      await admin.query(`grant select, insert, update on ${name}.outbox_${table} to lacking@'%'`);
    await applications.close();
    const url = new URL(database.url);
    url.username = 'lacking';
    const app = await start({ relay: 'manual', database: { setup: 'none' } }, by(url.href));
    const finding = await problem(app, 'rights');
    expect(finding).toMatchObject({ severity: 'error', evidence: { missing: 10 } });
    expect(finding.evidence['login']).toBe('lacking@%');
    expect(finding.evidence['rights']).toMatch('delete on ');
    await follow(admin, finding);
    await isWell(app, 'rights');
    expect(await problem(app, 'snapshot')).toMatchObject({ severity: 'note', evidence: { needs: 'PROCESS' } });
    const unseen = problems(await diagnose(app), 'not-asked');
    expect(unseen).toMatchObject([
      { evidence: { question: 'The purge backlog of InnoDB' }, fix: 'grant process on *.* to …;' },
    ]);
    await admin.query(`grant process on *.* to lacking@'%'`);
    await applications.close();
    const seeing = await start({ relay: 'manual', database: { setup: 'none' } }, by(url.href));
    await isWell(seeing, 'purge');
  });

  if (kind === 'mariadb')
    it('the room on the disk, where the plugin tells it', async () => {
      const app = await start();
      await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('has a size'));
      const unknown = (await diagnose(app, { measureFor: '10ms' })).outage;
      expect(unknown?.limits.map(({ limit }) => limit)).toEqual(['numbers']);
      await admin.query(`install soname 'disks'`);
      const { outage } = await diagnose(app);
      const disk = outage?.limits.find(({ limit }) => limit === 'disk');
      expect(disk?.left).toBeGreaterThan(2 ** 20);
      await admin.query(`uninstall soname 'disks'`);
    });
});
