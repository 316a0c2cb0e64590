import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import {
  build,
  MoodyTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
  useApplications,
  withoutPolls,
} from './support/app.js';

describeWith('postgres', 'What an operator changes in another process', () => {
  const used = useApplications();
  const { applications } = used;

  it('is published at once, not at the next poll', async () => {
    const transport = new MoodyTransport();
    const start = (options: object) =>
      applications.start(
        withoutPolls(
          build([
            typeOrm(used.database),
            OutboxModule.forRoot(quiet({ pollInterval: '1m', retry: { maxAttempts: 1 }, ...options })),
          ]),
        ),
      );
    const relay = await start({ transports: { default: transport } });
    const operator = (await start({ relay: false })).get(OutboxService);
    const isDead = async (): Promise<boolean> =>
      (await relay.get(DataSource).query('select 1 from outbox_parked where state = 4')).length > 0;
    for (const key of ['a', 'b', 'c']) {
      transport.refuses = true;
      const id = await operator.enqueueOutsideTransaction(new OrderPlaced(key));
      await until(isDead);
      transport.refuses = false;
      expect((await operator.requeue({ ids: [id] })).changed).toEqual([id]);
      await until(() => transport.ids.includes(id));
    }
  });
});
