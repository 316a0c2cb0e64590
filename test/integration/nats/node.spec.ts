import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { nkeyAuthenticator, nkeys, type ConnectionOptions } from '@nats-io/transport-node';
import type { Finding, OutboxTransport } from '../../../lib/index.js';
import { nats, type NatsOptions } from '../../../lib/transports/nats/index.js';
import { CANARY, SECRETS } from '../../security/canaries.js';
import { NatsNode } from '../../support/nats-node.js';
import { NatsObserver } from '../../support/nats.js';
import { contractMessage, expectAllOk, probePublish, publish } from '../../support/publish.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeUnlessMissing, serviceUrl, type Service } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until, untilDone } from '../../support/until.js';

const missing: Service[] = NatsNode.isInstalled ? [] : ['nats'];
const PASSWORD = CANARY.amqpPassword;

describeUnlessMissing(missing, 'nats() and a server of its own', () => {
  const key = nkeys.createUser();
  let node: NatsNode;
  let observer: NatsObserver;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    const users = [
      `{ user: all, password: "${PASSWORD}" }`,
      `{ user: some, password: "${PASSWORD}", permissions: { publish: { allow: ["may.>", "$JS.API.INFO"] }, subscribe: "_INBOX.>" } }`,
      `{ user: deaf, password: "${PASSWORD}", permissions: { subscribe: "nothing" } }`,
      `{ nkey: ${key.getPublicKey()} }`,
    ];
    node = await NatsNode.start(
      `max_payload: 500000
      authorization { timeout: 60 }
      accounts {
        SHOP { jetstream: { max_file: 3MB, max_mem: 3MB, max_streams: 50 }, users: [${users.join(', ')}] }
        BARE { users: [{ user: bare, password: "${PASSWORD}" }] }
      }`,
    );
    observer = await NatsObserver.connect(node.address, { user: 'all', pass: PASSWORD, maxReconnectAttempts: -1 });
  });
  afterEach(async () => {
    node.goOn();
    for (const transport of opened.splice(0)) await transport.close!();
  });
  afterAll(async () => {
    await observer?.close();
    await node?.remove();
  });

  const create = async (client: ConnectionOptions = { user: 'all' }, options: Partial<NatsOptions> = {}) => {
    const login = client.user === undefined ? {} : { pass: PASSWORD };
    // A signature in JavaScript takes its time.
    const all = { servers: node.address, timeout: 60_000, ...login, ...client };
    const transport = await nats({ client: all, ...options }).create();
    opened.push(transport);
    return transport;
  };
  const open = async (...given: Parameters<typeof create>) => {
    const transport = await create(...given);
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  };
  const to = (topic: string, payload = '{}') => contractMessage({ topic, payload });

  it.each<[string, ConnectionOptions, string]>([
    ['a wrong password', { user: 'all', pass: 'wrong' }, 'AuthorizationError'],
    ['nobody', {}, 'AuthorizationError'],
    ['no server', { user: 'all', servers: '127.0.0.1:1' }, 'ECONNREFUSED'],
    ['no right to its inbox', { user: 'deaf' }, 'PermissionViolationError'],
    ['TLS of a server without', { user: 'all', tls: {} }, 'ConnectionError'],
  ])('%s: not connected, says why without the password, and nobody is charged', async (_, client, why) => {
    const transport = await create(client);
    await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow();
    const [result] = await publish(transport, [to('orders')]);
    const message = `The connection to NATS was lost or refused (${why}).`;
    const error = expect.objectContaining({ code: 'TRANSPORT_UNAVAILABLE', message });
    expect(result).toEqual({ ok: false, blame: 'transport', error });
    expect(JSON.stringify([message, transport.health!()])).not.toContain(PASSWORD);
    expect(transport.health!()).toMatchObject({ up: false, state: 'closed' });
  });

  it('logs in with a key, and with what a function gives for each connection', async () => {
    const topic = await observer.stream();
    expectAllOk(await publish(await open({ authenticator: nkeyAuthenticator(key.getSeed()) }), [to(topic)]));
    let asked = 0;
    const client = () => ({ servers: node.address, user: (asked += 1) > 1 ? 'all' : 'nobody', pass: PASSWORD });
    const transport = await nats({ client }).create();
    opened.push(transport);
    await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow();
    expectAllOk(await publish(transport, [to(topic)]));
  });

  it('a right that a login lacks is of the subject; others get through', async () => {
    const topic = await observer.stream();
    await observer.edit(topic, { subjects: [topic, 'may.>'] });
    const results = await publish(await open({ user: 'some' }), [
      ...[to('may.a'), to(topic), to('may.b'), to(topic), to('not."a\\')],
    ]);
    const error = expect.objectContaining({ reason: 'denied' });
    const where = { suspect: 'destination', destination: `subject "${topic}"`, certain: true };
    const denied = { ok: false, blame: 'transport', error, ...where };
    const quoted = { ...denied, destination: 'subject "not."a\\"' };
    expect(results).toEqual([{ ok: true }, denied, { ok: true }, denied, quoted]);
    await observer.edit(topic, { subjects: [topic] });
  });

  it('what the server says before it closes is told', async () => {
    const expiring = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', (data) => {
        if (data.includes('PING')) socket.write('PONG\r\n'.repeat(data.toString().split('PING').length - 1));
        if (data.includes('HPUB')) socket.write("-ERR 'User Authentication Expired'\r\n");
      });
      socket.write('INFO {"version":"2.9.10","headers":true,"max_payload":1048576}\r\n');
    });
    await once(expiring.listen(0, '127.0.0.1'), 'listening');
    const { port } = expiring.address() as AddressInfo;
    const [result] = await publish(await open({ servers: `127.0.0.1:${port}`, user: 'all' }), [to('orders')]);
    const message = 'The connection to NATS was lost or refused (UserAuthenticationExpiredError).';
    expect(result).toMatchObject({ ok: false, blame: 'transport', error: { message } });
    expiring.close();
  });

  it('an account that is full charges nobody, and goes on when there is room', async () => {
    const [topic, other] = [await observer.stream(), await observer.stream({ storage: 'memory' as never })];
    const transport = await open();
    const large = Array.from({ length: 9 }, () => to(topic, 'x'.repeat(400_000)));
    const results = await publish(transport, [...large, to(other)]);
    expect(results.at(-1)).toEqual({ ok: true });
    const full = { ok: false, blame: 'transport', suspect: 'destination', destination: `subject "${topic}"` };
    const error = expect.objectContaining({ reason: 'refused', errorCode: 10002 });
    expect(results.at(-2)).toEqual({ ...full, error });
    await observer.manager.streams.purge(topic);
    expectAllOk(await publish(transport, [large.at(-1)!]));
  });

  it('a message above the max_payload of the server dies, and takes nobody with it', async () => {
    const topic = await observer.stream();
    const results = await publish(await open(), [to(topic), to(topic, 'x'.repeat(500_000)), to(topic)]);
    const problem = expect.objectContaining({ message: expect.stringContaining('max_payload, 500000') });
    expect(results).toEqual([{ ok: true }, { ok: false, blame: 'message', final: true, error: problem }, { ok: true }]);
  });

  it('what a server that stood still had not answered is not sent later; an outage of it charges nobody', async () => {
    const [topic, transport] = [await observer.stream(), await open()];
    await node.pause();
    const lost = Array.from({ length: 20 }, () => to(topic));
    const results = await publish(transport, lost, 500);
    expect(new Set(results.map((result) => (result.ok ? 'ok' : result.blame)))).toEqual(new Set(['transport']));
    expect(transport.health!()).toMatchObject({ up: false });
    node.goOn();
    // The same again: whatever the server had in its buffers is known to it.
    await untilDone(async () => expectAllOk(await publish(transport, lost)));
    expect(await observer.depth(topic)).toBe(20);
  });

  it('a publish that is over ends the connection, and what was on it besides is not charged', async () => {
    const [topic, transport] = [await observer.stream(), await open()];
    await node.pause();
    const long = publish(transport, [to(topic)]);
    const [short] = await publish(transport, [to(topic)], 300);
    expect(short).toMatchObject({ blame: 'transport', error: { code: 'PUBLISH_TIMEOUT' } });
    expect(await long).toMatchObject([{ blame: 'transport' }]);
    node.goOn();
    await untilDone(async () => expectAllOk(await publish(transport, [to(topic)])));
  });

  it('a process that stood still writes nothing of what is over by then', async () => {
    const proxy = await TcpProxy.start(node.address);
    const topic = await observer.stream();
    const transport = await open({ servers: `127.0.0.1:${proxy.port}`, user: 'all' });
    const { bytesUp } = proxy;
    const abort = new AbortController();
    const over = probePublish(transport, [to(topic)], { timeout: 60_000, signal: abort.signal });
    // The client writes in a task of its own.
    abort.abort();
    expect((await over).results).toMatchObject([{ blame: 'transport' }]);
    expectAllOk(await publish(transport, [to(topic)]));
    expect(await observer.depth(topic)).toBe(1);
    expect(proxy.bytesUp).toBeGreaterThan(bytesUp);
    await transport.close!();
    await proxy.close();
  });

  it('the doctor: what is missing, and what a stream does to what it takes', async () => {
    const findings = async (topics: readonly string[], options: Partial<NatsOptions> = {}, user = 'all') => {
      const transport = await create({ user }, options);
      const expected = topics.map((topic) => ({ topic, options: null }));
      const question = { transport: 'default', expected, outage: 3_600_000 };
      return transport.diagnose!(question, AbortSignal.timeout(60_000));
    };
    const codes = (all: readonly Finding[]) => all.map(({ code, severity }) => `${severity} ${code}`);
    const nowhere = observer.unusedName();
    const weak = await observer.stream({
      storage: 'memory' as never,
      retention: 'interest' as never,
      max_msgs: 10,
      duplicate_window: 1e9,
    });
    const perSubject = { discard: 'new' as never, max_msgs_per_subject: 1 };
    const short = await observer.stream({ no_ack: true, ...perSubject });
    const strong = await observer.stream({ duplicate_window: 7_200e9, ...perSubject, discard_new_per_subject: true });
    const all = await findings([nowhere, weak, short, strong]);
    expect(codes(all)).toEqual([
      ...[
        'ok broker',
        'warning payload-limit',
        'error destination-missing',
        'ok destination',
        'ok destination',
        'ok destination',
      ],
      ...['warning duplicate-window', 'warning no-interest', 'warning memory-storage', 'note drops-old'],
      ...['note duplicate-window', 'error no-answer', 'note drops-old', 'ok stream'],
    ]);
    expect(all.find(({ code }) => code === 'duplicate-window')).toMatchObject({
      text: `The stream ${weak} knows a message again for 1s.`,
      evidence: { duplicateWindowMs: 1_000, outageMs: 3_600_000 },
    });
    expect(codes(await findings([strong], { stream: short, maxPayloadBytes: 500_000 }))).toContain(
      'error other-stream',
    );
    expect(codes(await findings([strong], {}, 'bare'))).toEqual(['error broker']);
    await expect(findings([strong], {}, 'some')).rejects.toThrow('STREAM.NAMES');
    for (const stream of [weak, short, strong]) await observer.manager.streams.delete(stream);
  });
});

describeUnlessMissing(
  [...missing, ...(serviceUrl('postgres') === undefined ? ['postgres' as const] : [])],
  'a relay and a NATS in trouble',
  () => {
    let node: NatsNode;
    let harness: Harness;
    beforeAll(async () => {
      [node, harness] = await Promise.all([
        NatsNode.start(),
        // Whatever is charged dies.
        createHarness('postgres', {
          transports: { default: new ScriptedTransport() },
          retry: { maxAttempts: 1 },
          pollInterval: 50,
        }),
      ]);
    });
    afterAll(async () => {
      await harness?.close();
      await node?.remove();
    });

    it.each(['SIGKILL', 'SIGTERM'])(
      'a server that ends (%s) under load, and is back: all arrives, each key in order, each once, and a stream that is made later gets what waited',
      async (signal) => {
        const observer = await NatsObserver.connect(node.address, { maxReconnectAttempts: -1, reconnectTimeWait: 100 });
        const [topic, late] = [await observer.stream(), observer.unusedName()];
        const transport = await nats({ client: { servers: node.address } }).create();
        const { dispatcher, hooks } = harness.relay({ default: transport });
        const batch = (to: string, count: number) =>
          harness.enqueue(Array.from({ length: count }, (_, n) => ({ ...SECRETS, topic: to, key: `${to} ${n % 50}` })));
        const ids = await batch(topic, 2_000);
        await dispatcher.start();
        await hooks.until('published');
        await (signal === 'SIGKILL' ? node.kill() : node.stop());
        ids.push(...(await batch(topic, 500)));
        const waiting = await batch(late, 100);
        await until(() => transport.health!().up === false);
        await node.start();
        const found = await observer.receivedAll(topic, ids);
        for (let k = 0; k < 50; k += 1) {
          const ofKey = found.filter(({ key }) => key === `${topic} ${k}`).map(({ id }) => id);
          expect(ofKey).toEqual(ids.filter((_, n) => n % 50 === k));
        }
        await until(async () => (await harness.count('ready')) === 0);
        await observer.edit(topic, { subjects: [topic, late] });
        expect((await observer.receivedAll(topic, [...ids, ...waiting])).length).toBe(ids.length + waiting.length);
        await until(async () => (await harness.count('parked')) === 0);
        expect(hooks.of('dead')).toEqual([]);
        expect(await harness.secretsTold()).toEqual([]);
        await dispatcher.stop();
        await observer.close();
      },
    );
  },
);
