// @tier gate
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import {
  ClsPluginTransactional,
  InjectTransaction,
  Propagation as ClsPropagation,
  Transactional as ClsTransactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { DataSource } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation,
  StorageDriver,
  Transactional,
} from 'typeorm-transactional';
import { OutboxModule, OutboxService } from '../../../lib/index.js';
import {
  Applications,
  build,
  CollectingTransport,
  OrderPlaced,
  quiet,
  until,
  withoutPolls,
} from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import {
  DB,
  drizzleHost,
  knexHost,
  kyselyHost,
  mysql2Host,
  pgHost,
  prismaHost,
  typeOrmHost,
  type Hosted,
} from '../../support/data-layer-hosts.js';
import { describeWith, type DatabaseKind } from '../../support/services.js';
import { gate } from '../../support/transport-relay.js';

type Work<T> = () => Promise<T>;

/** A library that keeps transactions, and what it says of them. */
interface Keeper {
  required<T>(work: Work<T>): Promise<T>;
  requiresNew<T>(work: Work<T>): Promise<T>;
  nested<T>(work: Work<T>): Promise<T>;
  without<T>(work: Work<T>): Promise<T>;
  /** The transaction around a call, else the library's own object. */
  readonly current: object;
  /** One object that stands for it. */
  readonly proxy: object;
}

@Injectable()
class Cls implements Keeper {
  constructor(
    @InjectTransaction() readonly proxy: object,
    readonly host: TransactionHost,
  ) {}

  get current(): object {
    return this.host.tx as object;
  }
  @ClsTransactional()
  required<T>(work: Work<T>): Promise<T> {
    return work();
  }
  @ClsTransactional(ClsPropagation.RequiresNew)
  requiresNew<T>(work: Work<T>): Promise<T> {
    return work();
  }
  @ClsTransactional(ClsPropagation.Nested)
  nested<T>(work: Work<T>): Promise<T> {
    return work();
  }
  @ClsTransactional(ClsPropagation.NotSupported)
  without<T>(work: Work<T>): Promise<T> {
    return work();
  }
}

@Injectable()
class TypeOrmTransactional implements Keeper, OnApplicationShutdown {
  constructor(@Inject(DB) readonly dataSource: DataSource) {
    addTransactionalDataSource(dataSource);
  }

  get current(): object {
    return this.dataSource.manager;
  }
  get proxy(): object {
    return this.dataSource.manager;
  }
  onApplicationShutdown(): void {
    deleteDataSourceByName('default');
  }
  @Transactional()
  required<T>(work: Work<T>): Promise<T> {
    return work();
  }
  @Transactional({ propagation: Propagation.REQUIRES_NEW })
  requiresNew<T>(work: Work<T>): Promise<T> {
    return work();
  }
  @Transactional({ propagation: Propagation.NESTED })
  nested<T>(work: Work<T>): Promise<T> {
    return work();
  }
  @Transactional({ propagation: Propagation.NOT_SUPPORTED })
  without<T>(work: Work<T>): Promise<T> {
    return work();
  }
}

type Case = readonly [
  string,
  DatabaseKind,
  (database: TestDatabase) => Promise<Hosted>,
  typeof Cls | typeof TypeOrmTransactional,
];

const CASES: readonly Case[] = [
  ['typeorm-transactional', 'postgres', typeOrmHost, TypeOrmTransactional],
  ['nestjs-cls and TypeORM', 'postgres', typeOrmHost, Cls],
  ['nestjs-cls and TypeORM', 'mariadb', typeOrmHost, Cls],
  ['nestjs-cls and Prisma', 'postgres', prismaHost, Cls],
  ['nestjs-cls and Drizzle', 'postgres', drizzleHost, Cls],
  ['nestjs-cls and Knex', 'postgres', knexHost, Cls],
  ['nestjs-cls and Knex', 'mariadb', knexHost, Cls],
  ['nestjs-cls and Kysely', 'postgres', kyselyHost, Cls],
  ['nestjs-cls and pg', 'postgres', pgHost, Cls],
  ['nestjs-cls and mysql2', 'mariadb', mysql2Host, Cls],
];
const REQUIRED = { code: 'TRANSACTION_REQUIRED' };
const AMBIGUOUS = { code: 'AMBIGUOUS_TRANSACTION' };
const thrown = new Error('rolled back');
const fails = async (): Promise<never> => {
  throw thrown;
};

/** An application that commits each row of its own with a message. */
class Shop {
  readonly enqueued: string[] = [];
  /** By the id of the message. */
  readonly rows = new Map<string, number>();
  private row = 0;

  constructor(
    readonly hosted: Hosted,
    readonly transport: CollectingTransport,
    readonly outbox: OutboxService,
    readonly keeper: Keeper,
    /** Beside all. */
    readonly looker: DataSource,
  ) {
    outbox.events.on('enqueued', ({ ids }) => this.enqueued.push(...ids));
  }

  /** In the transaction around this call. @returns the message's id */
  async place(options?: object): Promise<string> {
    const row = await this.insert();
    const id = await this.outbox.enqueue(new OrderPlaced(String(row)), options);
    this.rows.set(id, row);
    return id;
  }

  async insert(): Promise<number> {
    const row = (this.row += 1);
    await this.hosted.run(this.keeper.current, `insert into shop_row values (${row})`);
    return row;
  }

  /** That these were, and nothing else. Nobody polls: a relay is woken by the commit. */
  async assertCommitted(...ids: readonly string[]): Promise<void> {
    await until(() => ids.every((id) => this.enqueued.includes(id) && this.transport.ids.includes(id)));
    await until(async () => (await this.outbox.stats()).transports['default']?.ready === 0);
    const rows = await this.looker.query<{ id: number }[]>('select id from shop_row order by id');
    expect(rows.map(({ id }) => id)).toEqual(ids.map((id) => this.rows.get(id)).sort((a, b) => Number(a) - Number(b)));
    for (const list of [this.enqueued, this.transport.ids]) expect(list.splice(0).sort()).toEqual([...ids].sort());
    await this.looker.query('delete from shop_row');
  }
}

async function startShop(applications: Applications, database: TestDatabase, [, , open, keeper]: Case): Promise<Shop> {
  const [hosted, looker] = [await open(database), await new DataSource(database.options).initialize()];
  await looker.query('create table shop_row (id int primary key)');
  const db = { module: class Db {}, providers: [{ provide: DB, useValue: hosted.db }], exports: [DB] };
  const plugin = new ClsPluginTransactional({ imports: [db], adapter: hosted.adapter, enableTransactionProxy: true });
  const keeping = { module: class Keeping {}, imports: [db], providers: [keeper], exports: [keeper] };
  const transport = new CollectingTransport();
  const outbox = OutboxModule.forRootAsync({
    imports: [keeping],
    inject: [keeper],
    useFactory: (kept: Keeper) => ({
      ...quiet({ transports: { default: transport }, pollInterval: '1m' }),
      dataLayer: hosted.dataLayer,
      currentTransaction: () => kept.current,
    }),
  });
  const cls = keeper === Cls ? [ClsModule.forRoot({ global: true, plugins: [plugin] })] : [];
  const module = await applications.start(withoutPolls(build([...cls, keeping, outbox])));
  return new Shop(hosted, transport, module.get(OutboxService), module.get<Keeper>(keeper), looker);
}

initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });

describe.each(CASES)('G10: %s on %s', (...row) => {
  const [name, kind] = row;
  describeWith(kind, name, () => {
    const applications = new Applications();
    let database: TestDatabase;
    let shop: Shop;
    let outbox: OutboxService;
    let keeper: Keeper;

    beforeAll(async () => {
      database = await createTestDatabase(kind);
      shop = await startShop(applications, database, row);
      ({ outbox, keeper } = shop);
    });
    afterAll(async () => {
      await applications.close();
      await shop.hosted.close();
      await shop.looker.destroy();
      await database.drop();
    });

    it('commits what a decorated method enqueues with it, and takes it back with it', async () => {
      const id = await keeper.required(() => shop.place());
      const rows: number[] = [];
      const inner = await keeper.required(async () => {
        for (let i = 0; i < 3; i += 1) rows.push(await shop.insert());
        return keeper.required(() => Promise.all(rows.map(() => outbox.enqueue(new OrderPlaced('0')))));
      });
      for (const [i, row] of rows.entries()) shop.rows.set(String(inner[i]), row);
      await expect(keeper.required(() => shop.place().then(fails))).rejects.toThrow(thrown);
      await expect(keeper.required(() => keeper.required(() => shop.place()).then(fails))).rejects.toThrow(thrown);
      await shop.assertCommitted(id, ...inner);
    });

    it('refuses where none is active, though the library hands out an object', async () => {
      const refused = async (options?: object): Promise<void> => {
        await expect(outbox.enqueue(new OrderPlaced('0'), options)).rejects.toMatchObject(REQUIRED);
      };
      await refused();
      await refused({ tx: keeper.current });
      await refused({ tx: keeper.proxy });
      const id = await keeper.required(async () => {
        await keeper.without(() => refused());
        return shop.place();
      });
      await shop.assertCommitted(id);
      const placed = await outbox.transaction((tx) => {
        return keeper.without(async () => {
          await shop.hosted.run(tx, 'insert into shop_row values (0)'); // which names no other
          return outbox.enqueue(new OrderPlaced('0'));
        });
      });
      shop.rows.set(placed, 0);
      await shop.assertCommitted(placed);
    });

    it('commits an inner transaction of its own when the outer one fails', async () => {
      let inner = '';
      const failed = keeper.required(async () => {
        await shop.place();
        inner = await keeper.requiresNew(() => shop.place({ tx: keeper.proxy }));
        await shop.place({ tx: keeper.proxy });
        await fails();
      });
      await expect(failed).rejects.toThrow(thrown);
      await shop.assertCommitted(inner);
    });

    it('takes back what a nested transaction enqueued, and nothing around it', async () => {
      const ids = await keeper.required(async () => {
        const before = await shop.place();
        await expect(keeper.nested(() => shop.place().then(fails))).rejects.toThrow(thrown);
        const kept = await keeper.nested(() => shop.place());
        return [before, kept, await shop.place()];
      });
      await shop.assertCommitted(...ids);
    });

    it('is left alone by what is written outside of it', async () => {
      let outside = '';
      const failed = keeper.required(async () => {
        await shop.place();
        outside = await outbox.enqueueOutsideTransaction(new OrderPlaced('0'));
        await fails();
      });
      await expect(failed).rejects.toThrow(thrown);
      await shop.looker.query('insert into shop_row values (0)');
      shop.rows.set(outside, 0);
      await shop.assertCommitted(outside);
    });

    it('is refused for a savepoint by a proxy that stands for another one by then', async () => {
      const failed = keeper.required(() =>
        outbox.bind(keeper.proxy as never, async () => {
          const nested = () => outbox.transaction(() => outbox.enqueue(new OrderPlaced('0')), { nested: true });
          await keeper.without(() => nested().catch((error: unknown) => expect(error).toMatchObject(REQUIRED)));
          await fails();
        }),
      );
      await expect(failed).rejects.toThrow(thrown);
      await shop.assertCommitted();
    });

    it('keeps transactions apart that one proxy stands for at once', async () => {
      const results = await Promise.allSettled(
        Array.from({ length: 40 }, (_, i) =>
          keeper.required(async () => {
            const id = await shop.place(i % 4 > 1 ? { tx: keeper.proxy } : {});
            return i % 2 === 0 ? id : fails();
          }),
        ),
      );
      const ids = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
      expect(ids).toHaveLength(20);
      await shop.assertCommitted(...ids);
    });

    it('joins outbox.transaction to it; a transaction inside that one is another, and must be named', async () => {
      const joined = await keeper.required(() =>
        outbox.transaction(async () => {
          await expect(outbox.transaction(() => shop.place().then(fails), { nested: true })).rejects.toThrow(thrown);
          return [await shop.place(), await outbox.transaction(() => shop.place(), { nested: true })];
        }),
      );
      await expect(keeper.required(() => outbox.transaction(() => shop.place().then(fails)))).rejects.toThrow(thrown);
      await shop.assertCommitted(...joined);
      let inner = '';
      const outer = outbox.transaction(() =>
        keeper
          .requiresNew(async () => {
            await expect(outbox.enqueue(new OrderPlaced('0'))).rejects.toMatchObject(AMBIGUOUS);
            await expect(outbox.transaction(fails)).rejects.toMatchObject(AMBIGUOUS);
            inner = await shop.place({ tx: keeper.current });
          })
          .then(fails),
      );
      await expect(outer).rejects.toThrow(thrown);
      await shop.assertCommitted(inner);
    });

    it('writes what nobody awaits with its transaction, or refuses it', async () => {
      let late: Promise<string | undefined> = Promise.resolve('');
      const orNone = (written: Promise<string>) => written.catch(() => undefined);
      const release = gate();
      await keeper.required(async () => {
        late = orNone(release.opened.then(() => outbox.enqueue(new OrderPlaced('0'))));
      });
      release.open();
      expect(await late).toBeUndefined();
      await keeper.required(async () => {
        late = orNone(outbox.enqueue(new OrderPlaced('0')));
        await shop.hosted.run(keeper.current, 'insert into shop_row values (0)');
      });
      const written = await late;
      if (written === undefined) await shop.looker.query('delete from shop_row');
      else shop.rows.set(written, 0);
      await shop.assertCommitted(...(written === undefined ? [] : [written]));
    });
  });
});
