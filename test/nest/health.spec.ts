import { OutboxModule, OutboxService, type OutboxHealth, type OutboxOptions } from '../../lib/index.js';
import { overridesToken } from '../../lib/outbox.tokens.js';
import { systemClock, type Clock } from '../../lib/time/clock.js';
import { type TestDatabase } from '../support/databases.js';
import { describeOnFewer } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import {
  useApplications,
  build,
  countedHealth,
  MoodyTransport,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

const KEY = 'customer-4711';
/** Milliseconds of each timer that an outbox set. */
const timers: number[] = [];
/** Milliseconds that passed beside those of the machine. */
let ahead = 0;
const clock: Clock = {
  ...systemClock,
  monotonic: () => systemClock.monotonic() + ahead,
  after: (ms, action) => {
    timers.push(ms);
    return systemClock.after(ms, action);
  },
};

/** An answer is good for a second, which is over. */
function healthOf(outbox: OutboxService, is?: (health: OutboxHealth) => boolean): Promise<OutboxHealth> {
  ahead += 1_001;
  return countedHealth(outbox, is);
}
/** A heartbeat of a busy machine may have been late. */
const isUp = ({ status }: OutboxHealth): boolean => status === 'up';

describeOnFewer([], 'health, and keys that wait', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const start = async (
    transport: MoodyTransport,
    retry: NonNullable<OutboxOptions['retry']>,
    at = database,
  ): Promise<OutboxService> => {
    const outbox = OutboxModule.forRoot(quiet({ transports: { default: transport }, retry }));
    const builder = build([typeOrm(at), outbox]).overrideProvider(overridesToken('default'));
    return (await applications.start(builder.useValue({ clock }))).get(OutboxService);
  };
  const enqueue = (outbox: OutboxService) => outbox.enqueueOutsideTransaction(new OrderPlaced(KEY));
  const blocked = (behind: number, way = 'published, requeued, discarded or released') =>
    `1 key of 'default' is blocked by a failed message, with ${behind} message${behind === 1 ? '' : 's'} behind it: until it is ${way}.`;

  it('D1: a key that a dead message blocks is told with what waits behind it, until it is released', async () => {
    const transport = new MoodyTransport();
    const outbox = await start(transport, { maxAttempts: 1 });
    await enqueue(outbox);
    await until(async () => (await outbox.stats()).total.dead === 1);
    const dead = "1 dead message for 'default' waits for requeue or discard.";
    expect(await healthOf(outbox)).toMatchObject({
      status: 'degraded',
      reasons: [{ text: dead }, { text: blocked(0) }],
    });
    for (let i = 0; i < 2; i++) await enqueue(outbox);
    await until(async () => (await outbox.stats()).total.blocked === 2);
    const health = await healthOf(outbox);
    expect(health).toMatchObject({
      status: 'degraded',
      reasons: [{ text: dead }, { text: blocked(2) }],
      transports: { default: { stats: { blockedKeys: 1, blocked: 2 } } },
    });
    expect(JSON.stringify(health)).not.toContain(KEY);
    transport.refuses = false;
    await outbox.release(KEY);
    await until(() => transport.ids.length === 2);
    await until(async () => (await outbox.health()).reasons.length === 1);
    expect(await healthOf(outbox)).toMatchObject({ status: 'degraded', reasons: [{ text: dead }] });
    await outbox.discard({ key: KEY });
    expect(await healthOf(outbox, isUp)).toMatchObject({ reasons: [] });
  });

  it('answers within two seconds of a database that fell silent, however many ask; it is down soon, and up again with it', async () => {
    const proxy = await TcpProxy.start(database.url);
    const url = new URL(database.url);
    url.host = `${proxy.host}:${proxy.port}`;
    const through = { ...database, options: { ...database.options, url: url.href } } as TestDatabase;
    const outbox = await start(new MoodyTransport(), {}, through);
    await healthOf(outbox, isUp);
    proxy.set({ up: 'hold', down: 'hold' });
    ahead += 1_001;
    timers.length = 0;
    const answers = await Promise.all(Array.from({ length: 20 }, () => outbox.health()));
    expect(timers).toContain(2_000); // the database answers nobody: what came, came by this
    for (const { status, reasons } of answers) {
      expect([status, reasons[0]?.code]).toEqual(['degraded', 'counts_late']);
    }
    await until(async () => (await outbox.health()).status === 'down');
    proxy.heal();
    await until(async () => (await outbox.health()).status === 'up');
    await applications.close();
    await proxy.close();
  });
});
