import { DataSource } from 'typeorm';
import type { DatabaseKind } from '../../support/services.js';
import { createHarness, type Harness } from '../../support/relay.js';

/** Before each test, rows that are gone and that a held snapshot keeps. */
export function withDeadRows(kind: DatabaseKind, insert: (dataSource: DataSource) => Promise<void>) {
  const dead = {} as { harness: Harness };
  const closing: (() => unknown)[] = [];
  beforeEach(async () => {
    const harness = (dead.harness = await createHarness(kind, { pollInterval: 50 }));
    closing.push(() => harness.close());
    const holder = await new DataSource(harness.database.options).initialize();
    closing.push(() => holder.destroy());
    const runner = holder.createQueryRunner();
    await runner.startTransaction('REPEATABLE READ');
    await runner.query('select count(*) from outbox_ready');
    closing.push(() => runner.rollbackTransaction().then(() => runner.release()));
    await insert(harness.dataSource);
    await harness.dataSource.query('delete from outbox_ready');
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  return dead;
}
