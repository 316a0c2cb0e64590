import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import {
  inProcess,
  OnOutboxEvent,
  OutboxCleaner,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  OutboxUnlocker,
  type OutboxOptions,
  type TransportStateListener,
} from '../../lib/index.js';
import type { RelayLoops } from '../../lib/relay/relay-loops.js';
import { turn } from '../support/transport-relay.js';
import { describeOnEach } from '../support/services.js';
import { build, CollectingTransport, quiet, typeOrm, until, useApplications } from './support/app.js';

/** What a request keeps: its tenant. */
const request = new AsyncLocalStorage<string>();
/** Whatever of the application was called by the outbox, and in whose context. */
const seen: { by: string; tenant: string | undefined }[] = [];
const see = (by: string): void => void seen.push({ by, tenant: request.getStore() });
const strangers = (): string[] =>
  [...new Set(seen.flatMap(({ by, tenant }) => (tenant === undefined ? [] : [`${by} in ${tenant}`])))].sort();
const names = (): string[] => [...new Set(seen.map(({ by }) => by))].sort();

/** Nothing is being read: the next commit wakes the loops, in the context of whoever commits. */
const idle = (dispatcher: OutboxDispatcher): Promise<void> =>
  until(() => {
    const transportRelays = dispatcher.relays as RelayLoops[];
    return transportRelays.every(
      ({ readLoop, parkedLoop }) => readLoop.active === undefined && parkedLoop.active === undefined,
    );
  });

@Injectable()
class Handlers {
  @OnOutboxEvent({ type: 'order' })
  async order(): Promise<void> {
    see('handler');
    await turn();
    see('handler, later');
  }
  @OnOutboxEvent({ type: 'bad' })
  bad(): void {
    see('handler');
    throw new Error('no');
  }
  /** `enterWith` binds whatever runs on: as a middleware, or `ClsService.enter`, would. */
  @OnOutboxEvent({ type: 'enters' })
  enters(): void {
    see('handler');
    request.enterWith('of a handler');
  }
}

const message = (type: string, key: string | null = null) => ({ type, topic: type, key, payload: {} });

describeOnEach([], 'the context of what the application is called for', (kind) => {
  const used = useApplications(kind);
  let prefix = 0;
  beforeEach(() => seen.splice(0));

  const options = (more: Partial<OutboxOptions> = {}): OutboxOptions => ({
    ...quiet({ transports: { default: inProcess() }, database: { prefix: `scope${++prefix}_` } }),
    retry: { initial: 1, max: 1, maxAttempts: 2, classify: () => see('classify') as undefined },
    deadLetter: () => see('deadLetter'),
    encryption: {
      encrypt: async (plaintext) => ({ keyId: 'k', ciphertext: plaintext }),
      decrypt: async ({ ciphertext }) => (see('decrypt'), ciphertext),
    },
    ...more,
  });
  const start = async (more: Partial<OutboxOptions> = {}) => {
    const app = await used.applications.start(
      build([typeOrm(used.database), OutboxModule.forRoot(options(more))], [Handlers]),
    );
    const outbox = app.get(OutboxService);
    for (const name of ['published', 'retried', 'dead', 'enqueued', 'leasesAcquired'] as const)
      outbox.events.on(name, () => see(name));
    return {
      app,
      outbox,
      dispatcher: app.get(OutboxDispatcher),
      dataSource: app.get<DataSource>(getDataSourceToken()),
    };
  };
  const empty = async (outbox: OutboxService): Promise<boolean> => {
    const { ready, waiting, blocked } = (await outbox.stats()).total;
    return ready + waiting + blocked === 0;
  };

  it('K1: is that of no request, whichever of them woke the relay', async () => {
    const { outbox, dispatcher } = await start({ pollInterval: '1m' });
    await idle(dispatcher);
    await Promise.all(
      ['A', 'B', 'C'].map((tenant) =>
        request.run(tenant, async () => {
          for (let i = 0; i < 10; i++) await outbox.enqueueOutsideTransaction(message('order', `${tenant}${i}`));
          await outbox.enqueueOutsideTransaction(message('bad', tenant));
        }),
      ),
    );
    await until(() => seen.filter(({ by }) => by === 'deadLetter').length === 3);
    await until(() => seen.filter(({ by }) => by === 'handler, later').length === 30 && names().includes('dead'));
    expect(strangers()).toEqual([]);
    const all = ['classify', 'dead', 'deadLetter', 'decrypt', 'enqueued', 'handler', 'handler, later', 'published'];
    expect(names()).toEqual(expect.arrayContaining(all));
  });

  it.each(['buckets', 'rowLock'] as const)(
    'K1: is that of no request that starts the relay, or has it pass, itself: %s',
    async (coordination) => {
      const { app, outbox, dispatcher } = await start({ relay: 'manual', coordination, ordering: 'none' });
      await request.run('A', async () => {
        await outbox.enqueueOutsideTransaction(message('order'));
        await dispatcher.runOnce();
        await outbox.enqueueOutsideTransaction(message('bad'));
        await dispatcher.drain();
        await app.get(OutboxUnlocker).runOnce();
        await app.get(OutboxCleaner).runOnce();
        await dispatcher.start();
        await outbox.enqueueOutsideTransaction(message('order'));
        await until(() => empty(outbox));
        expect(request.getStore()).toBe('A');
        await dispatcher.stop();
      });
      await until(() => seen.filter(({ by }) => by === 'published').length >= 2 && names().includes('dead'));
      expect(seen.filter(({ by }) => by === 'handler, later')).toHaveLength(2);
      expect(strangers()).toEqual([]);
    },
  );

  it('K1: is not that which another handler, or a listener, entered', async () => {
    const deserialize = (bytes: Buffer): unknown => {
      see('deserialize');
      request.enterWith('of a deserializer');
      return JSON.parse(bytes.toString());
    };
    const serialize = (payload: unknown): Buffer => Buffer.from(JSON.stringify(payload));
    const serializer = { contentType: 'application/json', serialize, deserialize };
    const { outbox, dispatcher } = await start({ relay: 'manual', serializer });
    outbox.events.on('published', () => request.enterWith('of a listener'));
    for (let i = 0; i < 5; i++) {
      await outbox.enqueueOutsideTransaction(message('enters'));
      await outbox.enqueueOutsideTransaction(message('order'));
    }
    await dispatcher.drain();
    await outbox.enqueueOutsideTransaction(message('bad'));
    await until(async () => (await dispatcher.drain(), names().includes('dead')));
    expect(names()).toContain('deserialize');
    expect(strangers()).toEqual(['handler in of a deserializer', 'handler, later in of a deserializer']);
  });

  it('K1: is that of no request for a transport, and for what it tells the relay', async () => {
    class Telling extends CollectingTransport {
      override async publish(...args: Parameters<CollectingTransport['publish']>) {
        see('publish');
        return super.publish(...args);
      }
      told: TransportStateListener | undefined;
      override async connect(_signal: AbortSignal, onState?: TransportStateListener): Promise<void> {
        this.told = onState;
        see('connect');
      }
    }
    const transport = new Telling();
    const { outbox, dispatcher } = await start({
      relay: 'manual',
      transports: { default: { useFactory: () => (see('factory'), transport) }, local: inProcess() },
    });
    await request.run('A', async () => {
      await dispatcher.start();
      await outbox.enqueueOutsideTransaction(message('order', 'k'));
      await until(() => names().includes('published'));
      transport.told?.('down', new Error('gone'));
      await outbox.enqueueOutsideTransaction(message('order', 'k'));
      await until(() => seen.filter(({ by }) => by === 'publish').length === 2);
    });
    expect(names()).toEqual(expect.arrayContaining(['factory', 'connect', 'publish']));
    expect(strangers()).toEqual([]);
  });

  it('K2: no handler joins the open transaction of the request that woke the relay', async () => {
    const effects: string[] = [];
    @Injectable()
    class Writer {
      constructor(readonly outbox: OutboxService) {}
      @OnOutboxEvent({ type: 'write' })
      async write(_: unknown, { key }: { key: string | null }): Promise<void> {
        await expect(this.outbox.enqueue(message('order'))).rejects.toMatchObject({ code: 'TRANSACTION_REQUIRED' });
        await this.outbox.transaction(async (manager) => {
          await manager.query(`insert into effects values ('${key}')`);
          await this.outbox.enqueue(message('order', 'follow-up'));
        });
        effects.push(key as string);
      }
    }
    const imports = [typeOrm(used.database), OutboxModule.forRoot(options({ pollInterval: '1m' }))];
    const app = await used.applications.start(build(imports, [Handlers, Writer]));
    await idle(app.get(OutboxDispatcher));
    const outbox = app.get(OutboxService);
    const dataSource = app.get<DataSource>(getDataSourceToken());
    await dataSource.query('create table effects (k varchar(20))');
    const rolledBack = outbox.transaction(async () => {
      await outbox.enqueueOutsideTransaction(message('write', 'audit'));
      await until(() => effects.length === 1);
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect(await dataSource.query('select k from effects')).toEqual([{ k: 'audit' }]);
    await until(() => seen.filter(({ by }) => by === 'handler, later').length === 1);
  });
});
