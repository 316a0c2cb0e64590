import type { OutboxTransport, PublishResult } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { publish } from '../../support/publish.js';
import { makeCertificates, REFUSED_CERTIFICATES, type Certificates } from '../../support/certificates.js';
import { readdressed } from '../../support/kafka-address.js';
import { eventually, kafkaConfig, messages, TestTopics } from '../../support/kafka.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { TlsFront } from '../../support/tls-front.js';

/** Without a `socketFactory`: the sockets are those that the transport opens itself. */
describeWith('kafka', 'kafka() over TLS', () => {
  let certificates: Certificates;
  let front: TlsFront;
  /** Between the transport and the front: it sees no plain text. */
  let proxy: TcpProxy;
  /** Between the front and the broker: the latter's answers send clients to the proxy. */
  let answers: TcpProxy;
  const topics = new TestTopics();
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    certificates = await makeCertificates();
    await topics.start();
    answers = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
    front = await TlsFront.start(`${answers.host}:${answers.port}`, certificates.good);
    proxy = await TcpProxy.start(`${front.host}:${front.port}`);
    const [own] = (await topics.admin.describeCluster()).brokers;
    answers.intercept = () => readdressed(own!, { host: 'localhost', port: proxy.port });
  });
  beforeEach(() => front.present(certificates.good));
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close!();
  });
  afterAll(async () => {
    await proxy?.close();
    await front?.close();
    await answers?.close();
    await topics.stop();
  });

  const open = async (ssl: object | true = { ca: [certificates.ca] }, host = 'localhost') => {
    const client = { ...kafkaConfig(), brokers: [`${host}:${proxy.port}`], ssl };
    const transport = await kafka({ client }).create();
    opened.push(transport);
    return transport;
  };
  const refusedWith = (code: string): PublishResult[] => {
    const error = { code: 'TRANSPORT_UNAVAILABLE', message: expect.stringContaining(`(${code})`) };
    return [{ ok: false, blame: 'transport', error: expect.objectContaining(error) }];
  };
  const connect = (transport: OutboxTransport) => transport.connect!(AbortSignal.timeout(60_000));

  it.each(['localhost', '127.0.0.1'])('publishes to %s, whose certificate is of the given authority', async (host) => {
    const [topic, transport] = [await topics.create(), await open(undefined, host)];
    const { bytesUp } = proxy;
    await connect(transport);
    expect(await publish(transport, messages(topic, 1))).toEqual([{ ok: true }]);
    expect(await topics.total(topic)).toBe(1);
    expect(proxy.bytesUp).toBeGreaterThan(bytesUp);
  });

  it.each(REFUSED_CERTIFICATES)(
    'C18: a certificate $what: $code, nobody is charged, and with a good one the same transport publishes',
    async ({ presented, code }) => {
      const [topic, transport] = [await topics.create(), await open()];
      front.present(certificates[presented]);
      await expect(connect(transport)).rejects.toThrow(`(${code})`);
      // Alone, where anything that the message could have done would be its.
      expect(await publish(transport, messages(topic, 1))).toEqual(refusedWith(code));
      expect(transport.health!()).toMatchObject({ up: false });
      front.present(certificates.good);
      expect(await publish(transport, messages(topic, 1))).toEqual([{ ok: true }]);
      expect(transport.health!()).toEqual({ up: true, state: 'connected' });
      expect(await topics.total(topic)).toBe(1);
    },
  );

  it('of an authority that it was not told of: says so', async () => {
    const transport = await open(true);
    await expect(connect(transport)).rejects.toThrow('(UNABLE_TO_VERIFY_LEAF_SIGNATURE)');
  });

  it('C18: a certificate that expires while clients are connected: charges nobody, and is replaced without a restart', async () => {
    const [topic, transport] = [await topics.create(), await open()];
    expect(await publish(transport, messages(topic, 1))).toEqual([{ ok: true }]);
    front.present(certificates.expired);
    proxy.cut();
    expect(await publish(transport, messages(topic, 1))).toEqual(refusedWith('CERT_HAS_EXPIRED'));
    front.present(certificates.good);
    expect(await publish(transport, messages(topic, 1))).toEqual([{ ok: true }]);
    expect(await topics.total(topic)).toBe(2);
  });

  it('C6, C9: nothing that waits in the kernel’s buffer is sent when its publish has failed', async () => {
    const [topic, transport] = [await topics.create(), await open()];
    expect(await publish(transport, messages(topic, 1))).toEqual([{ ok: true }]);
    proxy.stall();
    const results = await publish(
      transport,
      messages(topic, 90, () => ({ payload: 'x'.repeat(10_000) })),
      500,
    );
    expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
    const { bytesUp } = proxy;
    proxy.resume();
    await eventually('the sockets are closed', () => proxy.open === 0);
    // What the other side's kernel had taken is on its way, and is less than the request.
    expect(proxy.bytesUp - bytesUp).toBeLessThan(450_000);
    expect(await publish(transport, messages(topic, 1))).toEqual([{ ok: true }]);
    expect(await topics.total(topic)).toBe(2);
  });
});
