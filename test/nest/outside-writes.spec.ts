// @tier gate
import { DataSource, EntitySchema } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import { Applications, build, LineLogger, OrderPlaced, quiet, typeOrm } from './support/app.js';

interface Order {
  id: number;
}
const Order = new EntitySchema<Order>({ name: 'shop_order', columns: { id: { type: Number, primary: true } } });

describeWith(DATABASES, 'U5: writes beside outbox.transaction()', () => {
  const applications = new Applications();
  const databases: TestDatabase[] = [];

  beforeAll(async () => {
    for (const kind of DATABASES) databases.push(await createTestDatabase(kind));
  });
  afterEach(() => applications.close());
  afterAll(() => Promise.all(databases.map((database) => database.drop())));

  describe.each(DATABASES)('on %s', (kind) => {
    const number = DATABASES.indexOf(kind);
    const start = async () => {
      const { options, ...database } = databases[number] as TestDatabase;
      const logger = new LineLogger();
      const module = await applications.start(
        build([
          typeOrm({ ...database, options: { ...options, entities: [Order], synchronize: true } } as TestDatabase),
          OutboxModule.forRoot({ ...quiet({ relay: false }), logLevel: 'warn', logger }),
        ]),
      );
      const dataSource = module.get(DataSource);
      const orders = dataSource.getRepository(Order);
      await orders.clear();
      const warned = (): string[] => logger.lines.filter((line) => line.includes('another connection'));
      return { outbox: module.get(OutboxService), dataSource, orders, warned };
    };

    it('are warned of, once for each table', async () => {
      const { outbox, dataSource, orders, warned } = await start();
      await outbox
        .transaction(async () => {
          await orders.save({ id: 1 });
          await dataSource.transaction((other) => other.save(Order, { id: 2 }));
          throw new Error('rolled back');
        })
        .catch(() => undefined);
      expect(await orders.count()).toBe(2); // which is what the warning is for
      expect(warned()).toEqual([
        expect.stringMatching(/^warn .*inside outbox\.transaction\(\) a write to .shop_order. went/),
      ]);
      expect(warned()[0]).toMatch(/typeorm-transactional.*nestjs-cls.*currentManager/);
    });

    it('are not what goes through its manager, only reads, is meant to be outside, or comes before and after it', async () => {
      const { outbox, dataSource, orders, warned } = await start();
      await orders.save({ id: 1 });
      await outbox.transaction(async (manager) => {
        await manager.withRepository(orders).save({ id: 2 });
        await outbox.transaction((inner) => inner.save(Order, { id: 3 }), { nested: true });
        await orders.find();
        await dataSource.query('select 1');
        await outbox.enqueue(new OrderPlaced('1'));
        await outbox.enqueueOutsideTransaction(new OrderPlaced('2'));
      });
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await outbox.bind(runner, () => runner.manager.save(Order, { id: 4 }));
      await runner.commitTransaction();
      await runner.release();
      await orders.save({ id: 5 });
      expect([await orders.count(), warned()]).toEqual([5, []]);
    });
  });
});
