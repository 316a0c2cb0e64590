import type { DataSource } from 'typeorm';
import { OutboxModule, OutboxPartitionMaintainer, OutboxService } from '../../../lib/index.js';
import { build, MoodyTransport, quiet, typeOrm, until, useApplications } from '../../nest/support/app.js';
import { diagnose, isWell, operator, problem } from '../../support/doctor.js';
import { DAY, dayName, insertAt } from '../../support/partitioned-archive.js';
import { describeOnEach } from '../../support/services.js';

describeOnEach([], 'an application whose archive is in partitions', (kind) => {
  let admin: DataSource;
  afterAll(() => admin.destroy());
  const { applications, database } = useApplications(kind);
  beforeAll(async () => void (admin = await operator(database)));
  const start = (options: object) =>
    applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ onPublished: 'archive', ...options }))]));

  it('the doctor says when no partition is for now, and that plans and sizes are those of partitions', async () => {
    const app = await start({ relay: false, partitions: { period: 'day' } });
    await admin.query(insertAt(kind, new Date()));
    expect(await problem(app, 'partitions')).toMatchObject({ severity: 'warning', evidence: { coveredUntil: null } });
    await app.get(OutboxPartitionMaintainer).runOnce();
    await isWell(app, 'partitions');
    if (kind === 'postgres')
      // somebody's own, by another name
      await admin.query(
        `create table outbox_archive_mine partition of outbox_archive for values from ('2001-01-01') to ('2001-02-01')`,
      );
    for (const code of ['plan', 'schema']) await isWell(app, code);
    const { findings } = await diagnose(app);
    const size = findings.find(({ code }) => code === 'size');
    expect(size?.evidence['archiveBytes']).toBeGreaterThan(4_000);
  });

  it('a relay makes and drops them by itself, by its options', async () => {
    await admin.query(insertAt(kind, new Date(Date.now() - 5 * DAY)));
    const app = await start({
      transports: { default: new MoodyTransport() },
      retention: { published: '10d' },
      partitions: { period: 'day' },
    });
    const maintainer = app.get(OutboxPartitionMaintainer);
    const names = async () => (await maintainer.status()).partitions.map(({ name }) => name);
    await until(async () => (await maintainer.status()).isCovered && !(await maintainer.status()).isMoving);
    expect(await names()).toContain(dayName(Date.now()));
    await app.get(OutboxService).enqueueOutsideTransaction({ type: 'a', topic: 'a', key: null, payload: {} });
  });
});
