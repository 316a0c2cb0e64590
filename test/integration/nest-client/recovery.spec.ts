import 'reflect-metadata';
import type { EventEmitter } from 'node:events';
import { Logger } from '@nestjs/common';
import { ClientRMQ } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { systemClock } from '../../../lib/time/clock.js';
import type { TransportRelayDependencies } from '../../../lib/relay/relay.types.js';
import { InFlight } from '../../../lib/relay/publish/in-flight.js';
import { Trial } from '../../../lib/relay/publish/trial.js';
import { Pauses } from '../../../lib/relay/pauses/pauses.js';
import { WakeUps } from '../../../lib/relay/wake-ups.js';
import { Outage, type OutageRelay } from '../../../lib/relay/publish/outage.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import type { ClientProxyTransport } from '../../../lib/transports/nest-client/transport.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { RecordedHooks } from '../../support/relay.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

/** Of amqp-connection-manager. */
interface ChannelWrapper {
  publish(exchange: string, routingKey: string, content: Buffer): Promise<boolean>;
}

beforeAll(() => Logger.overrideLogger(false));

describeWith('rabbitmq', 'clientProxy() over ClientRMQ and a broker that comes back', () => {
  let observer: RabbitMqObserver;
  let proxy: TcpProxy;
  let client: ClientRMQ;
  let exchange: string;
  let transport: OutboxTransport;
  beforeEach(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    proxy = await TcpProxy.start(requiredUrl('rabbitmq'), { silent: true });
    exchange = await observer.exchange();
    const fine = await observer.queue();
    const full = await observer.queue({ maxLength: 1, overflow: 'reject-publish' });
    await observer.channel.bindQueue(fine, exchange, 'fine');
    await observer.channel.bindQueue(full, exchange, 'full');
    observer.channel.sendToQueue(full, Buffer.from('first'));
    await until(async () => (await observer.depth(full)) === 1);
    await open(3_600); // misses none during a test
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await transport.close?.();
    await proxy.close();
    await observer.close();
  });

  async function open(heartbeatIntervalInSeconds: number): Promise<void> {
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${proxy.host}:${proxy.port}`;
    const socketOptions = { reconnectTimeInSeconds: 1, heartbeatIntervalInSeconds };
    client = new ClientRMQ({ urls: [url.href], exchange, wildcards: true, socketOptions }); // the pattern is the routing key
    transport = await clientProxy({ client }).create();
    await transport.connect!(AbortSignal.timeout(60_000));
  }
  /** Of a message that no queue takes, one that is refused, and one that arrives. */
  const verdicts = async (): Promise<unknown[]> => {
    const batch = ['nowhere', 'full', 'fine'].map((topic) => contractMessage({ topic }));
    const { results } = await probePublish(transport, batch, { timeout: 60_000 });
    return results.map((result) => {
      if (result.ok) return 'ok';
      const { reason, code } = result.error as { reason?: string; code?: string };
      return [result.suspect ?? result.blame, reason, code];
    });
  };
  const BELIEVED = [
    ['destination', 'unroutable', 'PUBLISH_REJECTED'],
    ['destination', 'nacked', 'PUBLISH_REJECTED'],
    'ok',
  ];
  const NOT_BELIEVED = [
    ['transport', 'unroutable', 'TRANSPORT_UNAVAILABLE'],
    ['transport', 'nacked', 'TRANSPORT_UNAVAILABLE'],
    'ok',
  ];
  const state = (wanted: string): Promise<void> =>
    new Promise((resolve) => {
      transport.onState = (said) => (said === wanted ? resolve() : undefined);
    });
  const lost = async (): Promise<void> => {
    const down = state('down');
    proxy.cut();
    await down;
  };

  it.each([
    [
      'when the client connects again by itself',
      async () => {
        await lost();
        await state('up');
      },
    ],
    [
      'when the relay throws the connection away and makes another',
      async () => {
        await lost();
        await transport.reset!();
      },
    ],
    [
      'when all that was seen of the outage is a connection that was refused',
      async () => {
        await transport.reset!();
        await proxy.refuse();
        await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow();
        await proxy.accept();
      },
    ],
  ])('C16: charges nobody for what it does not find yet, and believes it later: %s', async (_, outage) => {
    // A moment ago is a matter of this clock, which stands still however long the test takes.
    const now = systemClock.monotonic();
    const clock = jest.spyOn(systemClock, 'monotonic').mockReturnValue(now);
    expect(await verdicts()).toEqual(BELIEVED);
    await outage();
    expect(await verdicts()).toEqual(NOT_BELIEVED);
    clock.mockReturnValue(now + 10_000);
    expect(await verdicts()).toEqual(BELIEVED);
  });

  it('C16: a connection that we ended ourselves is no outage', async () => {
    expect(await verdicts()).toEqual(BELIEVED);
    await transport.reset!();
    expect(await verdicts()).toEqual(BELIEVED);
  });

  it('C4: a connection that ends while the broker asks to wait, with nothing under way, ends the wait', async () => {
    const { client: manager, channel } = client as unknown as { client: EventEmitter; channel: ChannelWrapper };
    const { link } = transport as ClientProxyTransport;
    const [clock, hooks] = [new FakeClock(), new RecordedHooks()];
    const reconnect = async (): Promise<void> => {
      await transport.reset!();
      await transport.connect!(AbortSignal.timeout(60_000));
    };
    const [wakeUps, flight, trial] = [new WakeUps(), new InFlight(), new Trial()];
    const relay = { reconnect, giveUpWaiting: () => undefined, wakeUps, flight, trial };
    const [leases, options] = [{ pauses: new Pauses(), tellNow: () => undefined }, {}];
    const dependencies = { clock, hooks, name: 'default', random: () => 1, leases, options };
    const outage = new Outage(relay as unknown as OutageRelay, dependencies as unknown as TransportRelayDependencies);
    transport.onState = (said, reason) => outage.transportState(said, reason);
    manager.emit('blocked', { reason: 'low on memory' });
    expect(outage.circuit.state).toBe('blocked');
    // The application's own; the broker closes the channel with 404.
    channel.publish('no-such-exchange', 'key', Buffer.from('x')).catch(() => undefined);
    await until(() => link!.dead);
    expect(outage.circuit.state).toBe('open');
    await clock.advance(hooks.of('circuitOpened')[0]!.retryIn!);
    expect(await outage.mayRead()).toBe(true);
    outage.probeAgain(0, 1);
    expect(outage.circuit.state).toBe('closed');
    expect(await verdicts()).toContain('ok');
  });

  it('C6: an attempt that was given up does not come back and take the place of the living one', async () => {
    await transport.close?.();
    const [own, silent] = [await observer.exchange(), await TcpProxy.start(requiredUrl('rabbitmq'))];
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${silent.host}:${silent.port}`;
    const client = new ClientRMQ({ urls: [url.href], exchange: own, wildcards: true });
    try {
      silent.set({ down: 'hold' });
      void client.connect().catch(() => undefined); // the application's own
      transport = await clientProxy({ client }).create();
      await expect(transport.connect!(AbortSignal.timeout(300))).rejects.toThrow();
      await transport.connect!(AbortSignal.timeout(20_000)).catch(() => undefined); // a second life, as silent
      silent.set({ down: 'forward' });
      await transport.connect!(AbortSignal.timeout(20_000)).catch(() => undefined);
      const { results } = await probePublish(transport, [contractMessage({ topic: 'nowhere' })], { timeout: 60_000 });
      expect(results.map(({ ok }) => ok)).toEqual([false]);
      await transport.close?.();
      await until(() => silent.open === 0);
    } finally {
      await silent.close();
    }
  });

  it('C5: an end for what amqplib does not understand is heard, though no heartbeat is missed', async () => {
    const stray = Buffer.from('010032000000' + '0d003c0050' + '0000000000000001' + '00' + 'ce', 'hex'); // basic.ack, channel 50
    let sent = false;
    proxy.intercept = () => ({
      up: (bytes) => bytes,
      down: (bytes) => (sent ? ((sent = false), Buffer.concat([bytes, stray])) : bytes),
    });
    await lost();
    await state('up');
    const down = state('down');
    sent = true;
    await until(() => !sent);
    await down;
  });

  it.each([
    ['when its publish has timed out', 1_000, undefined],
    ['when the connection missed its heartbeats, which amqplib ends politely', 60_000, 1],
  ])('C6: nothing that waits in the kernel’s buffer is sent %s', async (_, timeout, heartbeat) => {
    if (heartbeat !== undefined) {
      await transport.close?.();
      await until(() => proxy.open === 0);
      await open(heartbeat);
    }
    const { left } = proxy;
    // Nor does the client hear of the broker, which misses heartbeats as well and ends the connection.
    await proxy.refuse();
    proxy.set({ down: 'drop' });
    proxy.stall();
    const payload = JSON.stringify('x'.repeat(20_000));
    const batch = Array.from({ length: 250 }, (_, n) => contractMessage({ topic: 'fine', key: `k${n}`, payload }));
    const { results } = await probePublish(transport, batch, { timeout });
    expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
    const { bytesUp } = proxy;
    const sent = (): number => proxy.bytesUp - bytesUp;
    proxy.resume();
    // What the other side's kernel had taken is on its way.
    const most = 500_000;
    await until(() => proxy.left > left || sent() > most);
    expect(sent()).toBeLessThan(most);
  });
});
