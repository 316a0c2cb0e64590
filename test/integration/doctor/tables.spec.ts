import type { DataSource, QueryRunner } from 'typeorm';
import { OutboxModule, OutboxService, type Finding, type OutboxOptions } from '../../../lib/index.js';
import { overridesToken } from '../../../lib/outbox.tokens.js';
import { build, quiet, typeOrm, until, useApplications } from '../../nest/support/app.js';
import { diagnose, follow, isWell, operator, problem, problems } from '../../support/doctor.js';
import { describeOnEach } from '../../support/services.js';

describeOnEach([], 'the doctor breaks nothing and names what is broken', (kind) => {
  let admin: DataSource;
  afterAll(() => admin.destroy());
  const { applications, database } = useApplications(kind);
  const isPostgres = kind === 'postgres';
  beforeAll(async () => void (admin = await operator(database)));
  const start = (options: Partial<OutboxOptions> = { relay: false }, overrides: object = {}) =>
    applications.start(
      build([typeOrm(database), OutboxModule.forRoot(quiet(options))])
        .overrideProvider(overridesToken('default'))
        .useValue(overrides),
    );

  it('an index that is gone: in the schema, and in the plan of the statement that needs it', async () => {
    const app = await start();
    const name = isPostgres ? 'outbox_parked_due' : 'due';
    await admin.query(isPostgres ? `drop index ${name}` : `drop index ${name} on outbox_parked`);
    const plan = await problem(app, 'plan');
    expect(plan).toMatchObject({ severity: 'error', evidence: { wanted: name, statement: 'poll for what is due' } });
    const schema = await problem(app, 'schema');
    expect(schema).toMatchObject({ severity: 'error', evidence: { code: 'SCHEMA_MISMATCH' } });
    expect(schema.text).toMatch(isPostgres ? /outbox_parked_due" is missing/ : /due/);
    await admin.query(
      isPostgres
        ? 'create index outbox_parked_due on outbox_parked (transport, bucket, due_at, seq) where due_at is not null'
        : 'create index due on outbox_parked (transport, bucket, due_at, seq)',
    );
    await isWell(app, 'plan');
    await isWell(app, 'schema');
  });

  it('a session that holds a snapshot: who it is, for how long, and the statement that ends it', async () => {
    const app = await start();
    const holder: QueryRunner = admin.createQueryRunner();
    await holder.query(
      isPostgres ? 'begin isolation level repeatable read' : 'start transaction with consistent snapshot',
    );
    const [row] = (await holder.query(
      isPostgres ? 'select pg_backend_pid() as id' : 'select connection_id() as id, count(*) from outbox_meta',
    )) as [{ id: number }];
    // On MariaDB and MySQL it is the oldest of the whole server, which may be somebody else's for a moment.
    const mine = (finding: Finding) => finding.evidence['holder'] === `session ${row.id}`;
    const finding = await problem(app, 'snapshot', { heldFor: 10 }, mine);
    expect(finding).toMatchObject({ severity: 'warning', evidence: { holder: `session ${row.id}` } });
    expect(finding.evidence['ageMs']).toBeGreaterThanOrEqual(10);
    expect(finding.evidence['since']).toBeInstanceOf(Date);
    await isWell(app, 'snapshot', { heldFor: '1h' });
    const ended = holder.query(isPostgres ? 'select pg_sleep(600)' : 'select sleep(600)').catch(() => 'ended');
    await follow(admin, finding);
    expect(await ended).toBeDefined();
    await until(async () => !problems(await diagnose(app, { heldFor: 10 }), 'snapshot').some(mine));
    await holder.release().catch(() => undefined);
  });

  it('lease rows that are missing, until a relay starts', async () => {
    const app = await start();
    await admin.query('delete from outbox_leases where bucket in (3, 5)');
    const finding = await problem(app, 'buckets');
    expect(finding).toMatchObject({ severity: 'error', evidence: { lack: 'missing', buckets: '3, 5', count: 2 } });
    await applications.close();
    await isWell(await start(), 'buckets');
  });

  it('leases of an instance that is gone, until they are broken', async () => {
    const app = await start();
    const later = isPostgres ? `now() + interval '1 hour'` : 'utc_timestamp(6) + interval 1 hour';
    await admin.query(`update outbox_leases set owner = 'ghost', expires_at = ${later} where bucket = 7`);
    const finding = await problem(app, 'buckets');
    expect(finding).toMatchObject({ evidence: { lack: 'owner gone', buckets: '7', owners: 'ghost' } });
    expect(await app.get(OutboxService).breakLeases({ owner: 'ghost' })).toMatchObject({ broken: 1 });
    await isWell(app, 'buckets');
  });

  it('buckets that nobody takes although a relay lives, and a relay with another lease', async () => {
    const app = await start();
    const [before, later] = isPostgres
      ? [`now() - interval '1 hour'`, `now() + interval '1 hour'`]
      : ['utc_timestamp(6) - interval 1 hour', 'utc_timestamp(6) + interval 1 hour'];
    await admin.query(`update outbox_leases set owner = 'ghost', expires_at = ${before} where bucket = 7`);
    const transports = isPostgres ? `'{0}'` : `'[0]'`;
    await admin.query(
      `insert into outbox_instances (owner, transports, info, expires_at) values ('idle', ${transports}, 'far pid 7 lease 60000ms', ${later})`,
    );
    const lacks = problems(await diagnose(app), 'buckets').map(({ evidence }) => [evidence['lack'], evidence['count']]);
    expect(lacks).toEqual([
      ['expired', 1],
      ['free', 31],
    ]);
    const lease = await problem(app, 'lease');
    expect(lease).toMatchObject({ severity: 'warning', evidence: { leaseMs: 30_000, others: 'far pid 7: 60000' } });
    await admin.query(`delete from outbox_instances where owner = 'idle'`);
    await isWell(app, 'buckets');
    await isWell(app, 'lease');
  });

  it('a question that hangs is a finding, and the others are answered', async () => {
    const app = await start();
    const lock = admin.createQueryRunner();
    await lock.query(isPostgres ? 'begin' : 'lock tables outbox_archive write');
    if (isPostgres) await lock.query('lock table outbox_archive in access exclusive mode');
    const report = await diagnose(app, { timeout: '60s' });
    const hung = problems(report, 'not-asked');
    expect(hung.map(({ evidence }) => evidence['question'])).toContain('The plans of the statements');
    expect(hung.every(({ severity, evidence }) => severity === 'warning' && evidence['why'] !== '')).toBe(true);
    expect(report.findings.map(({ code }) => code)).toEqual(
      expect.arrayContaining(['database', 'relay', 'times', 'health']),
    );
    await lock.query(isPostgres ? 'rollback' : 'unlock tables');
    await lock.release();
    const again = await diagnose(app);
    expect(problems(again, 'not-asked')).toEqual([]);
  });
});
