import { DataSource } from 'typeorm';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { Consumer, type ConsumerDescription, type Outcome } from './consumer.js';

const INSTALL_TIMEOUT = 900_000;
const TEST_TIMEOUT = 600_000;

/** What every kind of application must be able to do with the packed package. */
export function describeConsumer(
  name: string,
  description: ConsumerDescription,
  more: (consumer: () => Consumer) => void = () => {},
): void {
  describeWith('postgres', name, () => {
    jest.setTimeout(TEST_TIMEOUT);
    let consumer: Consumer;
    let database: TestDatabase;
    let dataSource: DataSource;
    let compiled: Outcome;

    beforeAll(async () => {
      database = await createTestDatabase('postgres');
      dataSource = await new DataSource(database.options).initialize();
      consumer = await Consumer.create(description);
      compiled = await consumer.compile();
    }, INSTALL_TIMEOUT);

    afterAll(async () => {
      await consumer?.remove();
      await dataSource?.destroy();
      await database?.drop();
    });

    const start = (script: string, ...args: string[]) =>
      consumer.node([`out/${script}`, ...args], { DATABASE_URL: database.url });

    const count = async (from: string): Promise<number> => {
      const [row] = (await dataSource.query(`select count(*) as count from ${from}`)) as [{ count: string }];
      return Number(row.count);
    };

    it('has types for every subpath', () => {
      expect(compiled).toEqual({ code: 0, stdout: '', stderr: '' });
    });

    it('has types at the root that need no optional peer', async () => {
      expect(await consumer.compile('tsconfig.root.json')).toEqual({ code: 0, stdout: '', stderr: '' });
    });

    it('publishes a message, with no broker client installed', async () => {
      expect(await consumer.installed()).not.toEqual(
        expect.arrayContaining([
          expect.stringMatching(/^(kafkajs|amqplib|@opentelemetry\/api|@nestjs\/(microservices|schedule))$/),
        ]),
      );
      const outcome = await start('main.js');
      expect(outcome).toMatchObject({ code: 0, stderr: '' });
      const { enqueued, id, ...message } = JSON.parse(outcome.stdout) as Record<string, unknown>;
      expect(message).toEqual({
        topic: 'orders',
        type: 'order.placed',
        key: 'order-1',
        payload: { orderId: 'order-1', total: 5 },
      });
      expect([enqueued].flat()).toContain(id);
    });

    it('has a command line that npx finds, which looks at the database and brings no package along', async () => {
      await start('main.js');
      let outcome!: Outcome;
      await until(async () => {
        outcome = await consumer.npx(['nestjs-outbox', 'status', '--json'], { OUTBOX_DATABASE_URL: database.url });
        return !outcome.stdout.includes('has not counted'); // a busy database takes its time
      });
      expect(outcome).toMatchObject({ code: 0, stderr: '' });
      expect(JSON.parse(outcome.stdout)).toMatchObject({ status: 'up', total: { ready: 0, dead: 0 } });
      expect(await consumer.installed()).not.toContain('commander');
    });

    it.each([
      ['G2: SIGTERM ends it, though its broker never answers', []],
      ['G3: a second signal ends its waiting', ['twice']],
    ])('%s, and its message is free', async (_, args) => {
      // What would wait for minutes is killed, and then it was another signal that ended it.
      expect(await start('signals.js', ...args)).toEqual({ code: -1, stdout: '', stderr: '', signal: 'SIGTERM' });
      await until(async () => (await count('outbox_leases where expires_at > now()')) === 0, 60_000); // a lease is an hour
      expect(await count('outbox_ready')).toBe(1);
      await dataSource.query('delete from outbox_ready');
    });

    it.each(['global', 'local'])(
      'L1, L2, L16: the relay of a %s module runs between bootstrap and destruction of a handler’s module, not after close, and is not loaded at runtime',
      async (kind) => {
        const outcome = await start('hooks.js', kind);
        expect(outcome).toMatchObject({ code: 0, stderr: '' });
        expect(JSON.parse(outcome.stdout)).toEqual({
          log: ['bootstrap, relay false', 'late', 'destroy, relay false'],
          refused: 'NOT_STARTED',
          late: Array(2).fill("The outbox 'late' was loaded when its application had been started"),
        });
        expect(await count('hooks_messages')).toBe(0);
      },
    );

    it('is one package for require and import', async () => {
      const outcome = await consumer.node(['src/identity.cjs']);
      expect(outcome).toMatchObject({ code: 0 });
      const { classes, ...found } = JSON.parse(outcome.stdout) as Record<string, unknown>;
      // These import a peer, when they are loaded or later.
      const twice = [
        ...['OutboxModule', 'InboxModule/inbox', 'OutboxCqrsModule/cqrs', 'OutboxEventPublisher/cqrs'],
        ...['OutboxEventEmitterModule/event-emitter', 'OutboxChannels/observe', 'OutboxTesting/testing'],
        ...['OutboxTracing/otel', 'OutboxHealthIndicator/terminus'],
      ];
      expect(found).toEqual({ different: [], twice, renamed: [] });
      expect(classes).toBeGreaterThan(20);
    });

    it.each([
      ['kafka', 'kafkajs'],
      ['rabbitmq', 'amqplib'],
      ['otel', '@opentelemetry/api'],
    ])('says in one sentence what %s needs when the application starts', async (transport, peer) => {
      const { stdout, stderr } = await start('missing-peer.js', transport);
      expect(JSON.parse(stdout || JSON.stringify({ stderr }))).toEqual({
        ours: true,
        code: 'MISSING_PEER',
        message: expect.stringContaining(`npm install ${peer}`),
      });
    });

    it('has its probes answer for the @nestjs/terminus of its Nest', async () => {
      const outcome = await start('probes.js');
      expect(outcome).toMatchObject({ code: 0, stderr: '' });
      expect(JSON.parse(outcome.stdout)).toEqual({
        answers: ['ok', 'ok', 'ok'],
        refused: 'Service Unavailable Exception',
        status: 'error',
      });
    });

    more(() => consumer);
  });
}
