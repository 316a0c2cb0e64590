// @tier gate
import { Controller, Injectable, Post, UseInterceptors, type CallHandler, type NestInterceptor } from '@nestjs/common';
import {
  ClsPluginTransactional,
  getTransactionHostToken,
  Transactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { ExpressAdapter } from '@nestjs/platform-express';
import { ClsModule } from 'nestjs-cls';
import { from, lastValueFrom, mergeMap, type Observable } from 'rxjs';
import { getOutboxToken, OutboxModule, OutboxService } from '../../../lib/index.js';
import { CollectingTransport, build, OrderPlaced, quiet, until, useApplications } from '../../nest/support/app.js';
import {
  DB,
  drizzleHost,
  kyselyHost,
  pgHost,
  prismaHost,
  typeOrmHost,
  type Hosted,
} from '../../support/data-layer-hosts.js';
import { describeWith } from '../../support/services.js';

const REQUIRED = { code: 'TRANSACTION_REQUIRED' };
const placed = new OrderPlaced('1');
const host = (name?: string): TransactionHost => TransactionHost.getInstance(name);

function plugin(hosted: Hosted, connectionName?: string) {
  const db = { module: class Db {}, providers: [{ provide: DB, useValue: hosted.db }], exports: [DB] };
  return new ClsPluginTransactional({
    imports: [db],
    adapter: hosted.adapter,
    ...(connectionName === undefined ? {} : { connectionName }),
  });
}

describeWith('postgres', 'transactions of nestjs-cls', () => {
  const { applications, database } = useApplications();
  const opened: Hosted[] = [];
  const open = async (library: (of: typeof database) => Promise<Hosted>): Promise<Hosted> => {
    const hosted = await library(database);
    opened.push(hosted);
    return hosted;
  };
  const transport = new CollectingTransport();
  const outboxOf = (hosted: Hosted, currentTransaction: () => object | null | undefined, name = 'default') =>
    OutboxModule.forRoot({
      ...quiet({ transports: { default: transport }, relay: false, database: { prefix: `${name}_` } }),
      dataLayer: hosted.dataLayer,
      currentTransaction,
      name,
    });
  const cls = (...plugins: ClsPluginTransactional[]) => ClsModule.forRoot({ global: true, plugins });
  const ready = async (outbox: OutboxService) => (await outbox.stats()).transports['default']?.ready;
  afterAll(async () => {
    for (const hosted of opened) await hosted.close();
  });

  it('of two hosts: each outbox has its own', async () => {
    const [one, other] = [await open(prismaHost), await open(kyselyHost)];
    const module = await applications.start(
      build([
        cls(plugin(one), plugin(other, 'other')),
        outboxOf(one, () => host().tx as object),
        outboxOf(other, () => module.get(getTransactionHostToken('other')).tx, 'other'),
      ]),
    );
    const [ofOne, ofOther] = [module.get(OutboxService), module.get<OutboxService>(getOutboxToken('other'))];
    await host().withTransaction(async () => {
      await ofOne.enqueue(placed);
      await expect(ofOther.enqueue(placed)).rejects.toMatchObject(REQUIRED);
      const failed = host('other').withTransaction(async () => {
        await Promise.all([ofOther.enqueue(placed), ofOne.enqueue(placed)]);
        throw new Error('rolled back');
      });
      await expect(failed).rejects.toThrow('rolled back');
      await host('other').withTransaction(() => ofOther.enqueue(placed));
    });
    expect([await ready(ofOne), await ready(ofOther)]).toEqual([2, 1]); // in 'default_' and in 'other_'
  });

  it.each([
    ['a host in place of its transaction', () => host()],
    ['a promise of a transaction', async () => host().tx as object],
    ['no object', () => 'tx' as never],
  ])('refuses %s', async (_, currentTransaction) => {
    for (const library of [prismaHost, drizzleHost, kyselyHost, pgHost, typeOrmHost]) {
      const [one, other] = [await open(library), await open(library)];
      const module = await applications.start(
        build([cls(plugin(one), plugin(other, 'other')), outboxOf(one, currentTransaction)]),
      );
      const outbox = module.get(OutboxService);
      const before = await ready(outbox);
      await host('other').withTransaction(() =>
        host().withTransaction(async () => {
          await expect(outbox.enqueue(placed)).rejects.toMatchObject(REQUIRED);
          await expect(outbox.transaction(() => outbox.enqueue(placed))).rejects.toMatchObject(REQUIRED);
        }),
      );
      expect(await ready(outbox)).toBe(before);
    }
  });

  it('that Prisma has timed out take nothing, and nothing begins in their place', async () => {
    const prisma = await open(prismaHost);
    const module = await applications.start(build([cls(plugin(prisma)), outboxOf(prisma, () => host().tx as object)]));
    const outbox = module.get(OutboxService);
    const before = await ready(outbox);
    for (const enqueues of [0, 1]) {
      const timedOut = host().withTransaction({ timeout: 100 } as never, async () => {
        const tx = host().tx as object;
        for (let i = 0; i < enqueues; i += 1) await outbox.enqueue(placed);
        await until(() =>
          prisma.run(tx, 'select 1').then(
            () => false,
            () => true,
          ),
        );
        await expect(outbox.enqueue(placed)).rejects.toMatchObject(REQUIRED);
        await expect(outbox.transaction(() => outbox.enqueue(placed))).rejects.toMatchObject(REQUIRED);
      });
      await expect(timedOut).rejects.toMatchObject({ code: 'P2028' });
    }
    expect(await ready(outbox)).toBe(before);
  });

  it('are found where the host has an extended Prisma client, whose own object is none', async () => {
    const prisma = await open(prismaHost);
    const db = (prisma.db as { $extends(by: object): object }).$extends({ client: { $more: () => 1 } });
    const module = await applications.start(
      build([cls(plugin({ ...prisma, db })), outboxOf(prisma, () => host().tx as object)]),
    );
    const outbox = module.get(OutboxService);
    const before = Number(await ready(outbox));
    await expect(outbox.enqueue(placed)).rejects.toMatchObject(REQUIRED);
    await outbox.transaction(() => outbox.enqueue(placed));
    await host().withTransaction(() => outbox.transaction(() => outbox.enqueue(placed)));
    expect(await ready(outbox)).toBe(before + 2);
  });

  it('are around a controller’s method, and not around what an interceptor does behind it', async () => {
    const hosted = await open(drizzleHost);
    const app = build([cls(plugin(hosted)), outboxOf(hosted, () => host().tx as object)], [Behind, Around], [Orders]);
    const compiled = await app.compile();
    applications.open.push(compiled);
    const server = compiled.createNestApplication(new ExpressAdapter(), { logger: false });
    await server.listen(0, '127.0.0.1');
    const post = async (path: string) => {
      const response = await fetch(`${await server.getUrl()}/${path}`, { method: 'POST' });
      return [response.status, await response.text()];
    };
    const before = Number(await ready(compiled.get(OutboxService)));
    expect(await post('behind')).toEqual([201, 'TRANSACTION_REQUIRED']); // the message of the method is there
    expect(await post('around')).toEqual([201, 'written']);
    expect(await post('both')).toEqual([201, 'AMBIGUOUS_TRANSACTION']);
    expect(await post('fails')).toEqual([500, expect.any(String)]);
    expect(await ready(compiled.get(OutboxService))).toBe(before + 2);
    await server.close();
  });
});

const outcome = (written: Promise<string>): Promise<string> =>
  written.then(
    () => 'written',
    ({ code }: { code: string }) => code,
  );

/** Enqueues when the method has ended. */
@Injectable()
class Behind implements NestInterceptor {
  constructor(readonly outbox: OutboxService) {}
  intercept(_: unknown, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(mergeMap(() => outcome(this.outbox.enqueue(placed))));
  }
}
/** As of docs/transactions.md. */
@Injectable()
class Around implements NestInterceptor {
  constructor(readonly outbox: OutboxService) {}
  intercept(_: unknown, next: CallHandler): Observable<unknown> {
    return from(this.outbox.transaction(() => lastValueFrom(next.handle(), { defaultValue: undefined })));
  }
}
@Controller()
class Orders {
  constructor(readonly outbox: OutboxService) {}
  @Post('behind')
  @UseInterceptors(Behind)
  @Transactional()
  behind(): Promise<string> {
    return this.outbox.enqueue(placed);
  }
  @Post('around')
  @UseInterceptors(Around)
  around(): Promise<string> {
    return outcome(this.outbox.enqueue(placed));
  }
  @Post('both')
  @UseInterceptors(Around)
  @Transactional()
  both(): Promise<string> {
    return outcome(this.outbox.enqueue(placed));
  }
  @Post('fails')
  @Transactional()
  async fails(): Promise<void> {
    await this.outbox.enqueue(placed);
    throw new Error('rolled back');
  }
}
