import type { OutboxTransport } from '../../lib/index.js';
import { makeCertificates, REFUSED_CERTIFICATES, type Certificates } from './certificates.js';
import { contractMessage, publish } from './publish.js';
import { TcpProxy } from './tcp-proxy.js';
import { TlsFront } from './tls-front.js';
import { until } from './until.js';

export interface TlsBroker {
  /** Of its own protocol, without TLS: `host:port` or a URL. */
  start(): Promise<string>;
  /** Once the proxy is there. */
  address?(proxy: TcpProxy): Promise<void>;
  stop(): Promise<void>;
  /** @param ca None: nothing is told of TLS but that it is there. */
  open(at: { readonly host: string; readonly port: number }, ca?: string): OutboxTransport | Promise<OutboxTransport>;
  topic(): Promise<string>;
  total(topic: string): Promise<number>;
  /** What `connect` throws, as far as it tells the code. */
  refusal(code: string): object;
  /** More than the kernel of this side takes, and fewer bytes than may leave it afterwards. */
  readonly flood: { readonly count: number; readonly size: number; readonly most: number };
}

export interface TlsContext {
  readonly certificates: Certificates;
  open(at?: { readonly host?: string; readonly port?: number }, ca?: string | null): Promise<OutboxTransport>;
  expectRefused(transport: OutboxTransport, code: string): Promise<void>;
}

export const send = (transport: OutboxTransport, topic: string) => publish(transport, [contractMessage({ topic })]);

/** What a transport over TCP promises of TLS, with its broker behind a front that speaks it. */
export function describeTls(broker: TlsBroker, more: (context: TlsContext) => void = () => {}): void {
  let certificates: Certificates;
  let front: TlsFront;
  /** Between the transport and the front: it sees no plain text. */
  let proxy: TcpProxy;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    certificates = await makeCertificates();
    front = await TlsFront.start(await broker.start(), certificates.good);
    proxy = await TcpProxy.start(`${front.host}:${front.port}`);
    await broker.address?.(proxy);
  });
  beforeEach(() => front.present(certificates.good));
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close!();
  });
  afterAll(async () => {
    await proxy?.close();
    await front?.close();
    await broker.stop();
  });

  const connect = (transport: OutboxTransport) => transport.connect!(AbortSignal.timeout(60_000));
  const open: TlsContext['open'] = async (at, ca = certificates.ca) => {
    const transport = await broker.open({ host: 'localhost', port: proxy.port, ...at }, ca ?? undefined);
    opened.push(transport);
    return transport;
  };
  /** The beginning of the code is enough. Alone, where anything that the message could have done would be its. */
  const expectRefused: TlsContext['expectRefused'] = async (transport, code) => {
    await expect(connect(transport)).rejects.toMatchObject(broker.refusal(code));
    await expectOutage(transport, code);
    expect(transport.health!()).toMatchObject({ up: false });
  };
  const expectOutage = async (transport: OutboxTransport, code: string) => {
    const message = expect.stringMatching(new RegExp(`\\(${code}`));
    const error = expect.objectContaining({ code: 'TRANSPORT_UNAVAILABLE', message });
    expect(await send(transport, await broker.topic())).toEqual([{ ok: false, blame: 'transport', error }]);
  };

  it.each(['localhost', '127.0.0.1'])('publishes to %s, whose certificate is of the given authority', async (host) => {
    const [topic, transport] = [await broker.topic(), await open({ host })];
    const { bytesUp } = proxy;
    await connect(transport);
    expect(await send(transport, topic)).toEqual([{ ok: true }]);
    expect(await broker.total(topic)).toBe(1);
    expect(proxy.bytesUp).toBeGreaterThan(bytesUp);
  });

  it.each(REFUSED_CERTIFICATES)(
    'C18: a certificate $what: $code, nobody is charged, and with a good one the same transport publishes',
    async ({ presented, code }) => {
      const [topic, transport] = [await broker.topic(), await open()];
      front.present(certificates[presented]);
      await expectRefused(transport, code);
      front.present(certificates.good);
      expect(await send(transport, topic)).toEqual([{ ok: true }]);
      expect(transport.health!()).toEqual({ up: true, state: 'connected' });
      expect(await broker.total(topic)).toBe(1);
    },
  );

  it('of an authority that it was not told of: says so', async () => {
    await expectRefused(await open({}, null), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE');
  });

  it('C18: a certificate that expires while clients are connected: charges nobody, and is replaced without a restart', async () => {
    const [topic, transport] = [await broker.topic(), await open()];
    expect(await send(transport, topic)).toEqual([{ ok: true }]);
    front.present(certificates.expired);
    proxy.cut();
    await expectOutage(transport, 'CERT_HAS_EXPIRED');
    front.present(certificates.good);
    expect(await send(transport, topic)).toEqual([{ ok: true }]);
    expect(await broker.total(topic)).toBe(2);
  });

  it('C6, C9: nothing that waits in the kernel’s buffer is sent when its publish has failed', async () => {
    const [topic, transport] = [await broker.topic(), await open()];
    expect(await send(transport, topic)).toEqual([{ ok: true }]);
    const { count, size, most } = broker.flood;
    const batch = Array.from({ length: count }, () => contractMessage({ topic, payload: 'x'.repeat(size) }));
    const { bytesUp, left } = proxy;
    proxy.stall();
    const results = await publish(transport, batch, 500);
    expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
    proxy.resume();
    await until(() => proxy.left > left && proxy.open === 0);
    // What the other side's kernel had taken is on its way.
    expect(proxy.bytesUp - bytesUp).toBeLessThan(most);
    expect(await send(transport, topic)).toEqual([{ ok: true }]);
  });

  more({
    get certificates() {
      return certificates;
    },
    open,
    expectRefused,
  });
}
