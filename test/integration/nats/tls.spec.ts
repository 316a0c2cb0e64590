import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OutboxTransport } from '../../../lib/index.js';
import { nats, type NatsConnectionOptions } from '../../../lib/transports/nats/index.js';
import {
  makeCertificates,
  REFUSED_CERTIFICATES,
  type Certificate,
  type Certificates,
} from '../../support/certificates.js';
import { NatsNode } from '../../support/nats-node.js';
import { NatsObserver } from '../../support/nats.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { describeUnlessMissing } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until, untilDone } from '../../support/until.js';

describeUnlessMissing(NatsNode.isInstalled ? [] : ['nats'], 'nats() over TLS', () => {
  let certificates: Certificates;
  let directory: string;
  let node: NatsNode;
  let proxy: TcpProxy;
  let observer: NatsObserver;
  let topic: string;
  const opened: OutboxTransport[] = [];
  const present = async ({ cert, key }: Certificate): Promise<void> => {
    await writeFile(join(directory, 'cert.pem'), cert);
    await writeFile(join(directory, 'key.pem'), key);
  };
  const restart = async (certificate: Certificate): Promise<void> => {
    await present(certificate);
    await node.stop();
    await node.start();
  };
  beforeAll(async () => {
    certificates = await makeCertificates();
    directory = await mkdtemp(join(tmpdir(), 'outbox-nats-tls-'));
    await present(certificates.good);
    await writeFile(join(directory, 'ca.pem'), certificates.ca);
    const files = ['cert', 'key', 'ca'].map(
      (name) => `${name}_file: ${JSON.stringify(join(directory, `${name}.pem`))}`,
    );
    node = await NatsNode.start(`tls { ${files.join('\n')}\n verify: true\n timeout: 60 }`);
    proxy = await TcpProxy.start(node.address);
    const { ca, good } = certificates;
    observer = await NatsObserver.connect(node.address, { tls: { ca, ...good }, maxReconnectAttempts: -1 });
    topic = await observer.stream();
  });
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close!();
  });
  afterAll(async () => {
    await observer?.connection.close();
    await proxy?.close();
    await node?.remove();
    await rm(directory, { recursive: true, force: true });
  });

  const open = async (tls?: NatsConnectionOptions['tls'], host = '127.0.0.1') => {
    const servers = `${host}:${proxy.port}`;
    const transport = await nats({ client: { servers, timeout: 60_000, ...(tls !== undefined && { tls }) } }).create();
    opened.push(transport);
    return transport;
  };
  const trusted = () => ({ ca: certificates.ca, ...certificates.good });
  const one = () => [contractMessage({ topic })];
  const expectRefused = async (transport: OutboxTransport, why: RegExp) => {
    const [result] = await publish(transport, one());
    const error = expect.objectContaining({ code: 'TRANSPORT_UNAVAILABLE', message: expect.stringMatching(why) });
    expect(result).toEqual({ ok: false, blame: 'transport', error });
  };

  it.each(['localhost', '127.0.0.1'])('publishes to %s, and shows its own certificate', async (host) => {
    expectAllOk(await publish(await open(trusted(), host), one()));
  });

  it('without a certificate of its own, or without the authority of the server: not connected', async () => {
    await expectRefused(await open({ ca: certificates.ca }), /ERR_SSL_|ECONNRESET|EPIPE|ConnectionError|unknown/);
    await expectRefused(await open(), /UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN/);
  });

  it.each(REFUSED_CERTIFICATES)(
    'a certificate $what: $code, and with a good one the same transport publishes',
    async ({ presented, code }) => {
      const transport = await open(trusted());
      await restart(certificates[presented]);
      await expectRefused(transport, new RegExp(code));
      await restart(certificates.good);
      await untilDone(async () => expectAllOk(await publish(transport, one())));
    },
  );

  it('nothing that waits in the kernel’s buffer is sent when its publish has failed', async () => {
    const transport = await open(trusted());
    expectAllOk(await publish(transport, one()));
    const batch = Array.from({ length: 40 }, () => contractMessage({ topic, payload: 'x'.repeat(500_000) }));
    const { bytesUp, left } = proxy;
    proxy.stall();
    const results = await publish(transport, batch, 500);
    expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
    proxy.resume();
    await until(() => proxy.left > left && proxy.open === 0);
    // What the other side's kernel had taken is on its way.
    expect(proxy.bytesUp - bytesUp).toBeLessThan(10_000_000);
    expectAllOk(await publish(transport, one()));
  });
});
