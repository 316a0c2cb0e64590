import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import type { CleanReport } from '../../lib/clean/cleaner.js';
import { OutboxCleaner, OutboxModule } from '../../lib/index.js';
import { overridesToken } from '../../lib/outbox.tokens.js';
import { FakeClock } from '../../lib/testing/index.js';
import { describeWith } from '../support/services.js';
import { build, quiet, typeOrm, until, useApplications } from './support/app.js';

describeWith('postgres', 'retention.every with a cron expression', () => {
  const used = useApplications();
  const { applications } = used;

  it('cleans when that says so, and at no other time', async () => {
    const retention = { published: '1s', every: { cron: '0 3 29 2 *' } } as const;
    const options = quiet({ retention, pollInterval: '1m', database: { setup: 'create', prefix: 'when_' } });
    const clock = new FakeClock();
    const builder = build([typeOrm(used.database), ScheduleModule.forRoot(), OutboxModule.forRoot(options)]);
    const compiled = await builder.overrideProvider(overridesToken('default')).useValue({ clock }).compile();
    applications.open.push(compiled);
    const dataSource = compiled.get(DataSource);
    const archive = (): Promise<unknown> =>
      dataSource.query(`insert into when_archive (transport, bucket, seq, id, topic, type, published_at)
        values (0, 0, 1, gen_random_uuid(), 't', 't', now() - interval '1 day')`);
    const left = async (): Promise<number> =>
      Number((await dataSource.query('select count(*) from when_archive'))[0].count);
    await archive();
    const cleaner = compiled.get(OutboxCleaner);
    const clean = cleaner.runOnce.bind(cleaner);
    const passes: Promise<CleanReport>[] = [];
    let under = 0;
    cleaner.runOnce = (request) => {
      expect(++under).toBe(1);
      const pass = clean(request).finally(() => (under -= 1));
      passes.push(pass);
      return pass;
    };
    await compiled.init();
    await clock.advance(25 * 3_600_000);
    expect(await Promise.all(passes)).toEqual([]);
    expect(await left()).toBe(1);

    const registry = compiled.get(SchedulerRegistry);
    const job = registry.getCronJob('outbox:default:clean');
    void job.fireOnTick();
    void job.fireOnTick(); // while that pass runs: another one behind it, not beside it
    expect(await passes[0]).toMatchObject({ published: 1 });
    await until(() => passes.length === 2 && under === 0);
    expect(await left()).toBe(0);
    await archive();
    await clock.advance(25 * 3_600_000); // a pass by the cron sets no timer either
    expect(passes).toHaveLength(2);
    expect(await left()).toBe(1);
    await applications.close();
    expect(registry.getCronJobs().size).toBe(0);
  });
});
