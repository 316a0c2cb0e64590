import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { build, CollectingTransport, quiet, until, useApplications } from './support/app.js';

describeWith('postgres', 'node-postgres that asks for bytes in place of texts', () => {
  const used = useApplications();

  it('F10: messages are enqueued, deduplicated and published as ever', async () => {
    const transport = new CollectingTransport();
    const options = { ...used.database.options, extra: { binary: true }, retryAttempts: 0 };
    const app = await used.applications.start(
      build([TypeOrmModule.forRoot(options), OutboxModule.forRoot(quiet({ transports: { default: transport } }))]),
    );
    const outbox = app.get(OutboxService);
    const enqueue = () =>
      app
        .get(DataSource)
        .transaction((manager) => outbox.enqueue({ type: 'paid', payload: 1, dedupKey: 'order-1' }, { manager }));
    const id = await enqueue();
    expect(await enqueue()).toBe(id);
    await until(() => transport.ids.length > 0);
    expect(transport.ids).toEqual([id]);
  });
});
