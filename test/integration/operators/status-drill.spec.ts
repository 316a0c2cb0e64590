import type { OutboxTransport } from '../../../lib/index.js';
import { systemClock, type Clock } from '../../../lib/time/clock.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { broken, createHarness, ScriptedTransport, type Harness, type RecordedHooks } from '../../support/relay.js';
import { describeOnEach, describeWith, requiredUrl } from '../../support/services.js';
import { runStatus, type Said } from '../../support/status-command.js';
import { until } from '../../support/until.js';

/** Looks that must all say the same. */
const LOOKS = 5;

/** No heartbeat, look or poll comes by its time. */
const WITHOUT_LOOKS: Clock = {
  ...systemClock,
  after: (ms, action) => (ms < 2_000 ? systemClock.after(ms, action) : () => undefined),
};

let harness: Harness;
afterEach(() => harness?.close());

const status = (): Promise<Said> => runStatus(harness);
/** What it says once that holds, and then at every look while the relay goes on with what it does: it does not flap. */
async function staysAt(is: Said['status'], line: RegExp, goOn?: () => Promise<unknown>): Promise<Said> {
  let said!: Said;
  const holds = ({ lines }: Said): boolean => lines.some((each) => line.test(each));
  await until(async () => holds((said = await status())), 60_000);
  for (let look = 0; look < LOOKS; look += 1) {
    expect([said.status, said.exitCode, said.lines]).toEqual([
      is,
      3,
      expect.arrayContaining([expect.stringMatching(line)]),
    ]);
    await goOn?.();
    said = await status();
  }
  return said;
}
async function start(transport: OutboxTransport): Promise<RecordedHooks> {
  const { dispatcher, hooks } = harness.relay({ default: transport });
  await dispatcher.start();
  return hooks;
}

describeOnEach([], 'what status says without a broker', (kind) => {
  const FAR = { owner: 'far', transports: [0], info: 'far pid 7 lease 300000ms' };

  it('without any relay it is down while messages wait, and says which relay was heard of last', async () => {
    harness = await createHarness(kind);
    expect(await status()).toMatchObject({ status: 'up', exitCode: 0, lines: [], relays: 0 });
    await harness.enqueue([{}]);
    await staysAt('down', /^no_relay: 1 message for 'default', which no live relay publishes\.$/);
    await harness.store.leases.beat(FAR, 1);
    await staysAt('down', /^no_relay: .* publishes: far pid 7 last reported at \S+Z\. \(for /);
    const transport = new ScriptedTransport();
    await start(transport);
    await transport.until(() => transport.published.length === 1);
    await until(async () => (await status()).status === 'up');
    expect((await status()).relays).toBe(1);
  });

  it('a relay that has missed two heartbeats is silent, and no relay that lives; one that has missed one is none of it', async () => {
    harness = await createHarness(kind);
    await harness.enqueue([{}]);
    await harness.store.leases.beat(FAR, 150_000);
    expect(await status()).toMatchObject({ status: 'up', relays: 1 });
    await harness.store.leases.beat(FAR, 90_000);
    const said = await status();
    expect(said).toMatchObject({ status: 'down', exitCode: 3, relays: 0 });
    expect(said.lines).toEqual([
      expect.stringMatching(
        /^relay_silent: 1 message for 'default' waits for a relay that is silent: far pid 7 last reported at /,
      ),
    ]);
    // Another one that lives takes its part over.
    await harness.store.leases.beat({ ...FAR, owner: 'near', info: 'near pid 8 lease 300000ms' }, 300_000);
    await harness.store.leases.beat(FAR, 90_000);
    expect(await status()).toMatchObject({ status: 'degraded', relays: 1 });
  });

  it('a broker that only one of two relays cannot reach is degraded, and says whose', async () => {
    harness = await createHarness(kind);
    const trouble = { code: 'transport_down', text: "Transport 'default' is down: refused.", transport: 'default' };
    const info = `far pid 7 lease 30000ms ${JSON.stringify({ troubles: [{ ...trouble, since: new Date() }] })}`;
    await harness.store.leases.beat({ owner: 'far', transports: [], info }, 30_000);
    expect(await status()).toMatchObject({ status: 'down', relays: 1 });
    await harness.store.leases.beat({ owner: 'near', transports: [0], info: 'near pid 8 lease 30000ms' }, 30_000);
    await harness.store.leases.beat({ owner: 'far', transports: [], info }, 30_000);
    const { lines, ...said } = await status();
    expect(said).toMatchObject({ status: 'degraded', relays: 2 });
    expect(lines).toEqual([
      expect.stringMatching(/^transport_down: .* is down: refused\. \(for \S+, relay far pid 7\)$/),
    ]);
  });

  it('what a relay finds out is in the tables at once, and not with its next heartbeat', async () => {
    harness = await createHarness(kind, { pollInterval: 30_000 });
    const transport = new ScriptedTransport();
    transport.behave = broken;
    const { dispatcher } = harness.relay({ default: transport }, {}, { clock: WITHOUT_LOOKS });
    await dispatcher.start();
    await until(async () => (await status()).relays === 1);
    await harness.enqueue([{}]);
    dispatcher.nudge();
    await staysAt('down', /^transport_down: .*connection refused/);
  });
});

describeWith(['rabbitmq', 'postgres'], 'what status says of RabbitMQ', () => {
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  beforeEach(async () => {
    harness = await createHarness('postgres');
  });
  afterAll(() => observer.close());
  const through = async (options: Partial<RabbitMqOptions>): Promise<RecordedHooks> =>
    start(await rabbitmq({ url: requiredUrl('rabbitmq'), ...options }).create());

  it('a broker that is away: down, with its error, before and after each probe', async () => {
    await harness.enqueue([{}]);
    const hooks = await through({ url: 'amqp://127.0.0.1:1' });
    let probes = 0;
    const said = await staysAt(
      'down',
      /^transport_down: Transport 'default' is down: .*127\.0\.0\.1:1.*relay \S+ pid \d+\)$/,
      () => hooks.until('circuitOpened', Math.min((probes += 1), 3)),
    );
    expect([said.lines.length, said.relays]).toEqual([1, 1]);
  });

  it('an exchange that is missing: degraded, until it is there', async () => {
    const [exchange, queue] = [observer.unusedName(), await observer.queue()];
    const hooks = await through({ exchange });
    const ids = await harness.enqueue([{ topic: 'a' }]);
    await staysAt(
      'degraded',
      new RegExp(
        `^destination_(missing|away): Transport 'default': exchange "${exchange}".*There is no exchange.*topology`,
      ),
    );
    await observer.channel.assertExchange(exchange, 'fanout');
    await observer.channel.bindQueue(queue, exchange, '');
    await observer.receivedAll(queue, ids);
    await hooks.until('destinationBack');
    await until(async () => (await status()).status === 'up');
  });
});
