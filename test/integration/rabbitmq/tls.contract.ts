import type { OutboxDispatcher, OutboxTransport, PublishResult } from '../../../lib/index.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { makeCertificates, REFUSED_CERTIFICATES, type Certificates } from '../../support/certificates.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { TlsFront } from '../../support/tls-front.js';
import { until } from '../../support/until.js';

/** With whatever `amqplib` is in the file that calls it. */
export function describeRabbitMqTls(client: string): void {
  describeWith(['rabbitmq', 'postgres'], `rabbitmq() over TLS, ${client}`, () => {
    let certificates: Certificates;
    let observer: RabbitMqObserver;
    let front: TlsFront;
    /** Between the transport and the front: it sees no plain text. */
    let proxy: TcpProxy;
    const opened: OutboxTransport[] = [];
    beforeAll(async () => {
      certificates = await makeCertificates();
      observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
      front = await TlsFront.start(requiredUrl('rabbitmq'), certificates.good);
      proxy = await TcpProxy.start(`${front.host}:${front.port}`);
    });
    beforeEach(() => front.present(certificates.good));
    afterEach(async () => {
      for (const transport of opened.splice(0)) await transport.close!();
    });
    afterAll(async () => {
      await proxy?.close();
      await front?.close();
      await observer?.close();
    });

    const secured = (hostname = 'localhost', { port }: { readonly port: number } = proxy) => {
      const url = new URL(requiredUrl('rabbitmq').replace(/^amqp:/, 'amqps:'));
      return Object.assign(url, { hostname, port: String(port) }).href;
    };
    const open = async (options: Partial<RabbitMqOptions> = {}) => {
      const socket = { ca: [certificates.ca] };
      const transport = await rabbitmq({ url: secured(), socket, ...options }).create();
      opened.push(transport);
      return transport;
    };
    const publish = async (transport: OutboxTransport, topic: string) =>
      (await probePublish(transport, [contractMessage({ topic })], { timeout: 60_000 })).results;
    const connect = (transport: OutboxTransport) => transport.connect!(AbortSignal.timeout(60_000));
    /** The beginning of the code is enough. */
    const refusedWith = (code: string): PublishResult[] => {
      const message = expect.stringMatching(new RegExp(`^RabbitMQ cannot be reached \\(${code}`));
      return [{ ok: false, blame: 'transport', error: expect.objectContaining({ message, reason: 'unavailable' }) }];
    };

    it.each(['localhost', '127.0.0.1'])(
      'publishes to %s, whose certificate is of the given authority',
      async (host) => {
        const [topic, transport] = [await observer.queue(), await open({ url: secured(host) })];
        const { bytesUp } = proxy;
        await connect(transport);
        expect(await publish(transport, topic)).toEqual([{ ok: true }]);
        expect(await observer.depth(topic)).toBe(1);
        expect(proxy.bytesUp).toBeGreaterThan(bytesUp);
      },
    );

    it.each(REFUSED_CERTIFICATES)(
      'C18: a certificate $what: $code, nobody is charged, and with a good one the same transport publishes',
      async ({ presented, code }) => {
        const [topic, transport] = [await observer.queue(), await open()];
        front.present(certificates[presented]);
        await expect(connect(transport)).rejects.toMatchObject({ code });
        // Alone, where anything that the message could have done would be its.
        expect(await publish(transport, topic)).toEqual(refusedWith(code));
        expect(transport.health!()).toMatchObject({ up: false });
        front.present(certificates.good);
        expect(await publish(transport, topic)).toEqual([{ ok: true }]);
        expect(transport.health!()).toEqual({ up: true, state: 'connected' });
        expect(await observer.depth(topic)).toBe(1);
      },
    );

    it('of an authority that it was not told of: says so', async () => {
      const transport = await open({ socket: {} });
      await expect(connect(transport)).rejects.toMatchObject({ code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' });
      expect(await publish(transport, await observer.queue())).toEqual(refusedWith('UNABLE_TO_VERIFY_LEAF_SIGNATURE'));
    });

    it('a broker that has no TLS: says so', async () => {
      const [host, port] = new URL(requiredUrl('rabbitmq')).host.split(':');
      const transport = await open({ url: secured(host, { port: Number(port) }) });
      await expect(connect(transport)).rejects.toMatchObject({ code: expect.stringMatching(/^ERR_SSL_/) });
      expect(await publish(transport, await observer.queue())).toEqual(refusedWith('ERR_SSL_'));
    });

    // With TLS 1.3 a client learns of it when it takes itself for connected, and perhaps only that the connection is gone.
    it('C18: a broker that asks for a certificate: refused without one, and publishes with it', async () => {
      const asking = { ca: certificates.ca, requestCert: true, maxVersion: 'TLSv1.2' } as const;
      const strict = await TlsFront.start(requiredUrl('rabbitmq'), { ...certificates.good, ...asking });
      const [topic, url] = [await observer.queue(), secured('localhost', strict)];
      const without = await open({ url });
      await expect(connect(without)).rejects.toMatchObject({ code: expect.stringMatching(/ALERT_HANDSHAKE_FAILURE$/) });
      expect(await publish(without, topic)).toEqual(refusedWith('ERR_SSL_.*ALERT_HANDSHAKE_FAILURE'));
      const { cert, key } = certificates.good;
      const known = await open({ url, socket: { ca: [certificates.ca], cert, key } });
      expect(await publish(known, topic)).toEqual([{ ok: true }]);
      await known.close!();
      await strict.close();
    });

    it('C6: nothing that waits in the kernel’s buffer is sent when its publish has failed', async () => {
      const [topic, transport] = [await observer.queue(), await open()];
      await connect(transport);
      proxy.stall();
      const batch = Array.from({ length: 5_000 }, () => contractMessage({ topic, payload: 'x'.repeat(2_000) }));
      const { results } = await probePublish(transport, batch, { timeout: 500 });
      expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
      const { bytesUp } = proxy;
      proxy.resume();
      await until(() => proxy.left > 0);
      // What the other side's kernel had taken is on its way: a tenth of what this one's takes.
      expect(proxy.bytesUp - bytesUp).toBeLessThan(1_000_000);
    });

    describe('in a relay', () => {
      let harness: Harness;
      let running: OutboxDispatcher | undefined;
      beforeAll(async () => {
        harness = await createHarness('postgres', { retry: { maxAttempts: 1 } });
      });
      afterEach(() => running?.stop());
      afterAll(() => harness?.close());

      it('C18: the broker’s certificate expires under load: an outage with that reason, which ends with a new one', async () => {
        const topic = await observer.queue();
        const { dispatcher, hooks } = harness.relay({ default: await open() });
        running = dispatcher;
        const enqueue = (count: number) =>
          harness.enqueue(Array.from({ length: count }, (_, n) => ({ topic, key: `k${n % 9}` })));
        const ids = await enqueue(500);
        await dispatcher.start();
        await observer.received(topic, 1);
        front.present(certificates.expired);
        proxy.cut();
        ids.push(...(await enqueue(500)));
        await until(() => hooks.of('circuitOpened').some(({ error }) => error.includes('CERT_HAS_EXPIRED')));
        front.present(certificates.good);
        await until(async () => (await harness.count('ready')) === 0);
        expect([...hooks.of('dead'), ...hooks.of('retried')]).toEqual([]);
        expect(await harness.count('parked')).toBe(0);
        await observer.receivedAll(topic, ids);
      });
    });
  });
}
