// @tier gate
import { Injectable, type DynamicModule, type Type } from '@nestjs/common';
import {
  ClsPluginTransactional,
  InjectTransaction,
  Propagation as ClsPropagation,
  Transactional as ClsTransactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm';
import { getDataSourceToken } from '@nestjs/typeorm';
import { ClsModule } from 'nestjs-cls';
import { DataSource, type EntityManager } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation,
  StorageDriver,
  Transactional,
} from 'typeorm-transactional';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
  withoutPolls,
} from './support/app.js';

/** What both libraries must be able to do with an outbox that is told where their transaction is. */
interface Shop {
  place(id: string, fail?: boolean): Promise<string>;
  /** An inner transaction of its own that commits; the outer one fails. */
  placeInner(outer: string, inner: string): Promise<void>;
  /** Through the manager that the library hands out. */
  placeBy(id: string): Promise<string>;
}

@Injectable()
class TypeOrmTransactionalShop implements Shop {
  constructor(
    readonly outbox: OutboxService,
    readonly dataSource: DataSource,
  ) {}

  @Transactional()
  async place(id: string, fail = false): Promise<string> {
    await this.dataSource.query('select 1'); // in the same transaction, also for the library
    const written = await this.outbox.enqueue(new OrderPlaced(id));
    if (fail) throw new Error('rolled back');
    return written;
  }
  @Transactional()
  async placeInner(outer: string, inner: string): Promise<void> {
    await this.outbox.enqueue(new OrderPlaced(outer));
    await this.placeNew(inner);
    throw new Error('rolled back');
  }
  @Transactional({ propagation: Propagation.REQUIRES_NEW })
  async placeNew(id: string): Promise<void> {
    await this.outbox.enqueue(new OrderPlaced(id));
  }
  @Transactional()
  placeBy(id: string): Promise<string> {
    return this.outbox.enqueue(new OrderPlaced(id), { manager: this.dataSource.manager });
  }
}

@Injectable()
class ClsShop implements Shop {
  constructor(
    readonly outbox: OutboxService,
    @InjectTransaction() readonly tx: EntityManager,
  ) {}

  @ClsTransactional()
  async place(id: string, fail = false): Promise<string> {
    await this.tx.query('select 1');
    const written = await this.outbox.enqueue(new OrderPlaced(id));
    if (fail) throw new Error('rolled back');
    return written;
  }
  @ClsTransactional()
  async placeInner(outer: string, inner: string): Promise<void> {
    await this.outbox.enqueue(new OrderPlaced(outer));
    await this.placeNew(inner);
    throw new Error('rolled back');
  }
  @ClsTransactional(ClsPropagation.RequiresNew)
  async placeNew(id: string): Promise<void> {
    await this.outbox.enqueue(new OrderPlaced(id));
  }
  @ClsTransactional()
  placeBy(id: string): Promise<string> {
    return this.outbox.enqueue(new OrderPlaced(id), { manager: this.tx });
  }
}

type Host = TransactionHost<TransactionalAdapterTypeOrm>;

describeWith('postgres', 'transactions of other libraries', () => {
  const { applications, database } = useApplications();
  beforeAll(async () => {
    initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });
  });
  afterEach(async () => {
    deleteDataSourceByName('default');
  });

  const transport = new CollectingTransport();
  const options = () => ({ ...quiet({ transports: { default: transport }, pollInterval: '1m' }) });

  async function typeOrmTransactional(): Promise<Shop & { outbox: OutboxService }> {
    const outbox: DynamicModule = OutboxModule.forRootAsync({
      inject: [DataSource],
      useFactory: (dataSource: DataSource) => {
        addTransactionalDataSource(dataSource);
        return { ...options(), currentTransaction: () => dataSource.manager };
      },
    });
    const app = await applications.start(withoutPolls(build([typeOrm(database), outbox], [TypeOrmTransactionalShop])));
    return app.get(TypeOrmTransactionalShop);
  }

  async function cls(): Promise<Shop & { outbox: OutboxService }> {
    const adapter = new TransactionalAdapterTypeOrm({ dataSourceToken: getDataSourceToken() as Type });
    const plugin = new ClsPluginTransactional({ adapter, enableTransactionProxy: true });
    const outbox: DynamicModule = OutboxModule.forRootAsync({
      inject: [TransactionHost],
      useFactory: (host: Host) => ({ ...options(), currentTransaction: () => host.tx }),
    });
    const app = await applications.start(
      withoutPolls(
        build([typeOrm(database), ClsModule.forRoot({ global: true, plugins: [plugin] }), outbox], [ClsShop]),
      ),
    );
    return app.get(ClsShop);
  }

  describe.each([
    ['typeorm-transactional', typeOrmTransactional],
    ['nestjs-cls', cls],
  ])('%s', (_name, start) => {
    it('G10: what a decorated method enqueues is committed, and rolled back, with it', async () => {
      const shop = await start();
      const enqueued: string[] = [];
      shop.outbox.events.on('enqueued', ({ ids }) => enqueued.push(...ids));
      const id = await shop.place('1');
      await until(() => transport.ids.includes(id)); // woken by the commit: nobody polls
      expect(enqueued).toEqual([id]);
      await expect(shop.place('2', true)).rejects.toThrow('rolled back');
      await expect(shop.outbox.enqueue(new OrderPlaced('3'))).rejects.toMatchObject({ code: 'TRANSACTION_REQUIRED' });
      const by = await shop.placeBy('4');
      await until(() => transport.ids.includes(by));
      expect(enqueued).toEqual([id, by]);
    });

    it('G10: an inner transaction of its own keeps its message when the outer one fails', async () => {
      const shop = await start();
      const enqueued: string[] = [];
      shop.outbox.events.on('enqueued', ({ ids }) => enqueued.push(...ids));
      await expect(shop.placeInner('outer', 'inner')).rejects.toThrow('rolled back');
      await until(() => enqueued.length === 1);
      await until(() => transport.ids.includes(enqueued[0] as string));
    });

    it('G10: calls that overlap write in their own transactions', async () => {
      const shop = await start();
      const before = transport.ids.length;
      const results = await Promise.allSettled(
        Array.from({ length: 40 }, (_, i) => shop.place(String(i), i % 2 === 0)),
      );
      const written = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      expect(written).toHaveLength(20);
      await until(async () => (await shop.outbox.stats()).transports['default']?.ready === 0);
      expect(transport.ids.slice(before).sort()).toEqual(written.sort());
    });
  });
});
