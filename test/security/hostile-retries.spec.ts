import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import { Applications, build, quiet, typeOrm, until } from '../nest/support/app.js';

const ROWS = 500;
const SECONDS = 3;

describe.each(DATABASES)('rows of others that ask to be tried for ever, on %s', (kind) => {
  describeWith(kind, 'and that the broker refuses', () => {
    let database: TestDatabase;
    let admin: DataSource;
    const applications = new Applications();
    beforeEach(async () => {
      database = await createTestDatabase(kind);
      admin = await new DataSource({ ...database.options } as DataSourceOptions).initialize();
    });
    afterEach(async () => {
      await applications.close();
      await admin.destroy();
      await database.drop();
    });

    it('J8: are tried no more often than a row may ask for, and what is good goes out beside them', async () => {
      const tries = new Map<string, number>();
      const transport = new RecordingTransport();
      transport.fail({
        when: ({ id, type }) => {
          if (type === 'storm') tries.set(id, (tries.get(id) ?? 0) + 1);
          return type === 'storm';
        },
      });
      const outbox = OutboxModule.forRoot(
        quiet({ transports: { default: transport }, pollInterval: 50, retry: { initial: '1s' } }),
      );
      const app = await applications.start(build([typeOrm(database), outbox]));
      const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
      const options = JSON.stringify({ $retry: { maxAttempts: null, initial: 1, max: 1 } });
      const rows = Array.from({ length: ROWS }, (_, n) => `(${n % 32}, ${id}, 'storm', 'storm', '${options}')`);
      await admin.query(`insert into outbox_ready (bucket, id, topic, type, options) values ${rows.join(', ')}`);
      const since = performance.now();
      const seconds = (): number => (performance.now() - since) / 1_000;
      await until(() => tries.size === ROWS && seconds() > SECONDS);
      await app.get(OutboxService).enqueueOutsideTransaction({ type: 'good', payload: 1 });
      await until(() => transport.published.some(({ type }) => type === 'good'));
      const all = [...tries.values()].reduce((sum, count) => sum + count, 0);
      // By jitter after 50, 100, 200, 400 ms on average, and 500 from then on.
      expect(all / ROWS).toBeLessThan(5 + seconds() / 0.5);
    });
  });
});
