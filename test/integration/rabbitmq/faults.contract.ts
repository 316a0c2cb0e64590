import amqp from 'amqplib';
import type { OutboxMessage, OutboxTransport, PublishResult } from '../../../lib/index.js';
import { systemClock } from '../../../lib/time/clock.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import type { RabbitMqTransport } from '../../../lib/transports/rabbitmq/transport.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

/** Longer than anything takes: what is not there by then never comes. */
const A_MINUTE = 60_000;
/** Longer than a test may take: a publish with it ends by something else. */
const FOR_EVER = 600_000;

/** With whatever `amqplib` is in the file that calls it. */
export function describeRabbitMqFaults(client: string): void {
  describeWith('rabbitmq', `rabbitmq() over a bad network, ${client}`, () => {
    let observer: RabbitMqObserver;
    let proxy: TcpProxy;
    const opened: OutboxTransport[] = [];
    beforeAll(async () => void (observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'))));
    afterAll(() => observer.close());
    beforeEach(async () => {
      proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
    });
    afterEach(async () => {
      jest.restoreAllMocks();
      await Promise.all(opened.splice(0).map((transport) => transport.close?.()));
      await proxy.close();
    });

    function proxied(): string {
      const url = new URL(requiredUrl('rabbitmq'));
      url.host = `${proxy.host}:${proxy.port}`;
      return url.href;
    }
    async function transportOf(options: Partial<RabbitMqOptions> = {}): Promise<OutboxTransport> {
      const source = options.connection === undefined ? { url: proxied() } : {};
      const transport = await rabbitmq({ ...source, connectTimeout: A_MINUTE, ...options }).create();
      opened.push(transport);
      await transport.connect?.(AbortSignal.timeout(A_MINUTE));
      return transport;
    }
    const lossOf = (transport: OutboxTransport): Promise<void> =>
      new Promise((resolve, reject) => {
        const onState = (state: string): void => (state === 'down' ? resolve() : undefined);
        transport.connect?.(AbortSignal.timeout(A_MINUTE), onState).catch(reject);
      });
    const blames = (results: readonly PublishResult[]) =>
      new Set(results.map((result) => (result.ok ? 'ok' : result.blame)));
    const many = (topic: string, count: number, bytes = 10): OutboxMessage[] =>
      Array.from({ length: count }, (_, n) => contractMessage({ topic, key: `k${n}`, payload: 'x'.repeat(bytes) }));

    it('knows of every message what happened when the connection breaks in the middle of a batch', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf({ maxUnconfirmed: 500 })];
      const states: string[] = [];
      await transport.connect?.(AbortSignal.timeout(A_MINUTE), (state) => states.push(state));
      const batch = many(topic, 2_000, 5_000);
      let reported = 0;
      const { results } = await probePublish(transport, batch, {
        timeout: A_MINUTE,
        onReport: () => {
          reported += 1;
          if (reported === 100) proxy.cut();
        },
      });
      expect(blames(results)).toEqual(new Set(['ok', 'transport']));
      expect(states).toContain('down');
      // Without reset or connect: the next publish finds its way.
      const retry = batch.filter((_, index) => !results[index]!.ok);
      expect(blames((await probePublish(transport, retry, { timeout: A_MINUTE })).results)).toEqual(new Set(['ok']));
      const seen = new Set((await observer.receivedUpTo(topic, retry.at(-1)!.id)).map(({ id }) => id));
      expect(batch.every(({ id }) => seen.has(id)) && seen.size === 2_000).toBe(true);
    });

    it('C2: destroys the connection before a timed-out publish settles, for everybody on it', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf()];
      proxy.set({ down: 'hold' });
      const settled: string[] = [];
      const probe = (name: string, timeout: number) =>
        probePublish(transport, many(topic, 3), { timeout }).finally(() => settled.push(name));
      const others = probe('long', FOR_EVER);
      const short = await probe('short', 500);
      expect(transport.health?.().up).toBe(false);
      await new Promise(setImmediate);
      expect(settled.sort()).toEqual(['long', 'short']); // in one go, with the connection
      const long = await others;
      expect([...blames(short.results), ...blames(long.results)]).toEqual(['transport', 'transport']);
      expect(short.results[0]).toMatchObject({ error: { code: 'PUBLISH_TIMEOUT' } });
    });

    it('holds to its own confirm timeout', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf({ confirmTimeout: 300 })];
      proxy.set({ down: 'hold' });
      const { results } = await probePublish(transport, many(topic, 1), { timeout: FOR_EVER });
      expect(blames(results)).toEqual(new Set(['transport']));
    });

    it('C2: notices a silent peer by its heartbeat', async () => {
      const transport = await transportOf({ heartbeat: '1s' });
      const down = lossOf(transport);
      proxy.set({ up: 'drop', down: 'drop' });
      await down;
      expect(transport.health?.()).toMatchObject({ up: false });
    });

    it('C4: writes no more than the window and the buffers take from a broker that does not answer', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf({ maxUnconfirmed: 50 })];
      proxy.set({ down: 'hold' });
      const before = proxy.bytesUp;
      await probePublish(transport, many(topic, 5_000, 1_000), { timeout: 700 });
      expect(proxy.bytesUp - before).toBeLessThan(50 * 2_000);
    });

    it('sends a batch larger than all buffers', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf({ maxUnconfirmed: 100_000 })];
      expect(blames((await probePublish(transport, many(topic, 10_000, 3_000), { timeout: 150_000 })).results)).toEqual(
        new Set(['ok']),
      );
      expect(await observer.depth(topic)).toBe(10_000);
    });

    it('C6: destroys even a connection of the application rather than send later, and the process survives', async () => {
      const connection = await amqp.connect(proxied(), { timeout: A_MINUTE });
      const [topic, transport] = [await observer.queue(), await transportOf({ connection })];
      const { stream } = connection.connection as unknown as { stream: { destroyed: boolean } };
      proxy.set({ up: 'drop' });
      const { results } = await probePublish(transport, many(topic, 3), { timeout: 500 });
      expect(stream.destroyed).toBe(true);
      expect(blames(results)).toEqual(new Set(['transport']));
      expect(await observer.depth(topic)).toBe(0);
    });

    it('C16: charges nobody for what a broker that was away does not find yet, and believes it later', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf()];
      const missing = `${topic}-not-loaded-yet`;
      const lost = lossOf(transport);
      // Right after an outage is a matter of this clock, which stands still however long the test takes.
      const now = systemClock.monotonic();
      const clock = jest.spyOn(systemClock, 'monotonic').mockReturnValue(now);
      // A queue that never was: before the outage it is missing, right after it nobody knows.
      const ofOne = async () => (await probePublish(transport, many(missing, 1), { timeout: A_MINUTE })).results[0];
      expect(await ofOne()).toMatchObject({ suspect: 'destination', certain: true });
      proxy.cut();
      await lost;
      const { results } = await probePublish(transport, [...many(missing, 2), ...many(topic, 2)], {
        timeout: A_MINUTE,
      });
      expect(results.map((result) => (result.ok ? 'ok' : result.blame))).toEqual([
        'transport',
        'transport',
        'ok',
        'ok',
      ]);
      expect(results[0]).toMatchObject({ error: { reason: 'unroutable', code: 'TRANSPORT_UNAVAILABLE' } });
      expect(results[0]).not.toHaveProperty('suspect');
      clock.mockReturnValue(now + 10_000);
      expect(await ofOne()).toMatchObject({ suspect: 'destination', certain: true });
    });

    it('M1: a destination that was silent with its connection is told as the broker answers once it is asked', async () => {
      const transport = await transportOf();
      const full = await observer.queue({ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } });
      expect(blames((await probePublish(transport, many(full, 1), { timeout: A_MINUTE })).results)).toEqual(
        new Set(['ok']),
      );
      const exchange = observer.unusedName();
      const [unbound, nowhere, refusing] = [
        many(`${full}-missing`, 1),
        [contractMessage({ topic: 'any', key: 'k', options: { rabbitmq: { exchange } } })],
        many(full, 1),
      ];
      const batch = [...unbound, ...nowhere, ...refusing];
      proxy.set({ down: 'hold' });
      // Two seconds are waited for one destination; the publish has more.
      expect(blames((await probePublish(transport, batch, { timeout: 6_000 })).results)).toEqual(
        new Set(['transport']),
      );
      proxy.heal();
      (transport as RabbitMqTransport).silence.patience = A_MINUTE; // for a broker that is slow
      const { results } = await probePublish(transport, batch, { timeout: A_MINUTE });
      const certain = { suspect: 'destination', certain: true };
      expect(results).toMatchObject([
        { ...certain, error: { reason: 'unroutable' } },
        { ...certain, error: { reason: 'channel-closed', replyCode: 404 } },
        { ...certain, error: { reason: 'nacked' } },
      ]);
    });

    it('M1: a destination is asked for as long as it has to answer, however long the connection for that takes', async () => {
      const [topic, transport] = [await observer.queue(), await transportOf()];
      const publish = async (timeout: number) =>
        (await probePublish(transport, many(topic, 1), { timeout })).results[0];
      proxy.set({ down: 'hold' });
      expect(await publish(2_400)).toMatchObject({ ok: false });
      proxy.heal();
      await transport.connect?.(AbortSignal.timeout(A_MINUTE));
      proxy.set({ delay: 200 }); // six times there and back until the channel is open: more than the two seconds to answer
      // A broker that is slow is asked again, over a connection that takes as long.
      await until(async () => (await publish(A_MINUTE))!.ok);
    });
  });
}
