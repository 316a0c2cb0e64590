// @tier gate
import { DataSource, EntitySchema } from 'typeorm';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { type TestDatabase } from '../support/databases.js';
import { describeOnEach } from '../support/services.js';
import { build, LineLogger, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

interface Order {
  id: number;
}
const Order = new EntitySchema<Order>({ name: 'shop_order', columns: { id: { type: Number, primary: true } } });

describeOnEach([], 'U5: writes beside outbox.transaction()', (kind) => {
  const { applications, database } = useApplications(kind);

  const start = async () => {
    const { options, ...rest } = database;
    const logger = new LineLogger();
    const module = await applications.start(
      build([
        typeOrm({ ...rest, options: { ...options, entities: [Order], synchronize: true } } as TestDatabase),
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
    expect(warned()[0]).toMatch(/typeorm-transactional.*nestjs-cls.*currentTransaction/);
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
