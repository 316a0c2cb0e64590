import type { DataSourceOptions } from 'typeorm';
import {
  OutboxConfigurationError,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type OutboxOptions,
} from '../../lib/index.js';
import { type TestDatabase } from '../support/databases.js';
import { describeOnEach } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  failure,
  GatedTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

describeOnEach([], 'relays of one process, and the same tables', (kind) => {
  const { applications, database } = useApplications(kind);

  const shop = (options: Partial<OutboxOptions> = {}, at = database) =>
    build([typeOrm(at), OutboxModule.forRoot(quiet(options))]);
  const reached = (options: object): TestDatabase => ({
    ...database,
    options: { type: kind, ...(kind === 'postgres' ? {} : { timezone: 'Z' }), ...options } as DataSourceOptions,
  });
  const publishes = async (app: { get(type: typeof OutboxService): OutboxService }, ids: readonly string[]) => {
    const id = await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
    await until(() => ids.includes(id));
  };

  const seconds = {
    'with a DataSource of its own': () => shop(),
    'that names the schema': () => {
      const { pathname } = new URL(database.url);
      return shop({ database: { schema: kind === 'postgres' ? 'public' : pathname.slice(1) } });
    },
    'that says where in other words': () => {
      const { hostname: host, port, username, password, pathname } = new URL(database.url);
      const login = { username, password: decodeURIComponent(password), database: pathname.slice(1) };
      return shop({}, reached({ host, ...(port === '' ? {} : { port: Number(port) }), ...login }));
    },
    'with replicas': () => {
      const { url } = database;
      return shop({}, reached({ replication: { master: { url }, slaves: [{ url }] } }));
    },
  };
  it.each(Object.entries(seconds))(
    'G4: a second application %s is refused and told what to do, the first goes on',
    async (_which, second) => {
      const transport = new CollectingTransport();
      const first = await applications.start(shop({ transports: { default: transport } }));
      const error = await failure(second());
      expect(error).toBeInstanceOf(OutboxConfigurationError);
      expect(error).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
      expect(error.message).toContain('relay from the same tables in one process');
      expect(error.message).toContain('Close the first before the second starts, or set relay: false');
      expect(error.message.match(/relay-twins\.spec\.ts:\d+/g)).toHaveLength(2);
      await publishes(first, transport.ids);
    },
  );

  it('G4: a second one in the same application is refused, unless it only enqueues', async () => {
    const outboxes = (relay: boolean) => [
      typeOrm(database),
      typeOrm(database, 'second'),
      OutboxModule.forRoot(quiet()),
      OutboxModule.forRoot({ ...quiet({ relay }), name: 'second', dataSource: 'second' }),
    ];
    expect(await failure(build(outboxes(true)))).toMatchObject({ code: 'DUPLICATE_INSTANCE' });
    await applications.start(build(outboxes(false)));
  });

  it('G4, G5: the next may start when the first was closed, and while it still ends', async () => {
    const [ending, transport] = [new GatedTransport(), new CollectingTransport()];
    const patient = { shutdownTimeout: '2m', publishTimeout: '20s' } as const; // while the second one starts
    const first = await applications.start(shop({ transports: { default: ending }, ...patient }));
    const id = await first.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('0'));
    await until(() => ending.handed.includes(id));
    const closed = first.close(); // nobody waits for it, as in a hot reload
    const second = await applications.start(shop({ transports: { default: transport } }));
    expect(ending.ids).toEqual([]);
    ending.gate.open();
    await closed;
    await publishes(second, transport.ids);
    await second.close();
    const third = new CollectingTransport();
    await publishes(await applications.start(shop({ transports: { default: third } })), third.ids);
  });

  it('are no twins with another prefix, nor where a test says that it wants several', async () => {
    await applications.start(shop());
    await applications.start(shop({ database: { prefix: 'other_' } }));
    await applications.start(shop({ relay: false }));
    for (let i = 0; i < 2; i++) {
      const dispatcher = (await applications.start(shop({ relay: 'manual' }))).get(OutboxDispatcher);
      await dispatcher.start();
      expect(dispatcher.status().running).toBe(true);
    }
  });
});
