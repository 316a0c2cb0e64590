import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { build, enqueueIn, LineLogger, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

describeWith('postgres', 'An application that enqueues and closes at once', () => {
  const used = useApplications();
  const { applications } = used;

  it.each([0, 1, 5, 50])('says nothing of its notification, %d turns after the commit', async (turns) => {
    const logger = new LineLogger();
    const app = await applications.start(
      build([typeOrm(used.database), OutboxModule.forRoot(quiet({ relay: false, logLevel: 'debug', logger }))]),
    );
    const errors: unknown[] = [];
    app.get(OutboxService).events.on('error', (event) => errors.push(event));
    await enqueueIn(app.get(DataSource), (manager) =>
      app.get(OutboxService).enqueue(new OrderPlaced('a'), { manager }),
    );
    for (let i = 0; i < turns; i += 1) await new Promise((resolve) => setImmediate(resolve));
    await applications.close();
    expect(errors).toEqual([]);
    expect(logger.lines.filter((line) => /^(error|warn)/.test(line))).toEqual([]);
  });

  it('has told the relays of other processes when it is closed', async () => {
    const app = await applications.start(
      build([typeOrm(used.database), OutboxModule.forRoot(quiet({ relay: false }))]),
    );
    const listener = await new DataSource(used.database.options as never).initialize();
    const runner = listener.createQueryRunner();
    const client = await runner.connect();
    const [{ channel }] = await listener.query(
      `select 'outbox_' || left(encode(sha256(convert_to('"public"."outbox_ready"', 'UTF8')), 'hex'), 24) as channel`,
    );
    const heard = jest.fn();
    client.on('notification', heard);
    await runner.query(`listen "${channel}"`);
    await enqueueIn(app.get(DataSource), (manager) =>
      app.get(OutboxService).enqueue(new OrderPlaced('a'), { manager }),
    );
    await applications.close();
    await runner.query('select 1');
    expect(heard).toHaveBeenCalled();
    await runner.release();
    await listener.destroy();
  });
});
