import type { DataSource, QueryRunner } from 'typeorm';
import { watchTransactions } from '../../../../lib/data-layers/typeorm/runner-watch.js';

/** What of TypeORM's is wrapped; its state is in the fields, so that a copy has its own. */
class Runner {
  isTransactionActive = false;
  transactionDepth = 0;
  query(sql: string): Promise<string> {
    return Promise.resolve(sql);
  }
  async startTransaction(): Promise<void> {
    this.isTransactionActive = true;
    await this.query('START TRANSACTION');
    this.transactionDepth += 1;
  }
  async commitTransaction(): Promise<void> {
    if (!this.isTransactionActive) throw new Error('not started');
    await this.query('COMMIT');
    this.isTransactionActive = false;
    this.transactionDepth -= 1;
  }
  rollbackTransaction(): Promise<void> {
    return this.commitTransaction();
  }
}

describe('watching the transactions of a DataSource', () => {
  function source() {
    class Source {
      createQueryRunner(): Runner {
        return new Runner();
      }
    }
    const dataSource = new Source();
    watchTransactions(dataSource as unknown as DataSource);
    return { dataSource, Source };
  }

  it('what replaces createQueryRunner in the class, as libraries for tests do, counts, and so does its end', () => {
    const { dataSource, Source } = source();
    const { prototype } = Source;
    const before = prototype.createQueryRunner;
    const shared = new Runner();
    prototype.createQueryRunner = () => shared;
    expect(dataSource.createQueryRunner()).toBe(shared);
    prototype.createQueryRunner = before;
    expect(dataSource.createQueryRunner()).not.toBe(shared);
  });

  it('a runner that is handed out again and again is wrapped once', () => {
    const { dataSource, Source } = source();
    const shared = new Runner();
    Source.prototype.createQueryRunner = () => shared;
    const { startTransaction } = dataSource.createQueryRunner();
    expect(dataSource.createQueryRunner().startTransaction).toBe(startTransaction);
  });

  it('a copy of a runner begins and ends its own transaction, also when it was made in the middle of one', async () => {
    const { dataSource } = source();
    const runner = dataSource.createQueryRunner();
    const copy = (): Runner => Object.assign(Object.create(Runner.prototype) as Runner, runner);
    const early = copy();
    await early.startTransaction();
    expect([early.isTransactionActive, runner.isTransactionActive]).toEqual([true, false]);
    await early.commitTransaction();
    await runner.startTransaction();
    const late = copy();
    await late.commitTransaction();
    expect([late.isTransactionActive, runner.isTransactionActive]).toEqual([false, true]);
    await runner.commitTransaction();
    expect(runner.isTransactionActive).toBe(false);
  });

  it('watches a DataSource once', () => {
    const { dataSource } = source();
    const { createQueryRunner } = dataSource;
    watchTransactions(dataSource as unknown as DataSource);
    expect(dataSource.createQueryRunner).toBe(createQueryRunner);
    expect((dataSource.createQueryRunner() as unknown as QueryRunner).isTransactionActive).toBe(false);
  });
});
