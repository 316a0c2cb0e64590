// @tier gate
import { OutboxDoctor, OutboxModule, OutboxService } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeWith } from '../../support/services.js';
import {
  Applications,
  build,
  CollectingTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from '../../nest/support/app.js';

describe.each(['postgres', 'mariadb', 'mysql'] as const)('on %s', (kind) => {
  describeWith(kind, 'doctor', () => {
    let database: TestDatabase;
    const applications = new Applications();
    beforeEach(async () => {
      database = await createTestDatabase(kind);
    });
    afterEach(async () => {
      await applications.close();
      await database.drop();
    });
    it('x', async () => {
      const transport = new CollectingTransport();
      const outbox = OutboxModule.forRoot(quiet({ transports: { default: transport } }));
      const app = await applications.start(build([typeOrm(database), outbox]));
      await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('a'));
      await until(() => transport.ids.length === 1);
      const report = await app.get(OutboxDoctor).diagnose({ measureFor: '500ms' });
      console.log(JSON.stringify(report, null, 1));
    });
  });
});
