import type { Finding, OutboxTransport } from '../../../lib/index.js';
import { redis, type RedisOptions } from '../../../lib/transports/redis/index.js';
import { enqueued } from '../../support/enqueue.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { RedisObserver } from '../../support/redis.js';
import { describeWithOwnRedis, OwnRedis } from '../../support/redis-server.js';
import { createHarness } from '../../support/relay.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';
import { watch } from '../../support/watched.js';

const connected = async (options: RedisOptions): Promise<OutboxTransport> => {
  const transport = await redis(options).create();
  await transport.connect!(AbortSignal.timeout(60_000));
  return transport;
};

describeWith('redis', 'what is in a stream', () => {
  let observer: RedisObserver;
  beforeAll(() => {
    observer = new RedisObserver(requiredUrl('redis'));
  });
  afterAll(() => observer.close());
  const define = (options: Partial<RedisOptions> = {}) => redis({ url: requiredUrl('redis'), ...options });

  it('the fields, in this order, in the stream that prefix and topic name', async () => {
    const transport = await connected({
      url: () => requiredUrl('redis'),
      streamPrefix: `${observer.prefix}:`,
      headers: { app: 'shop' },
    });
    const message = contractMessage({
      topic: 'größe',
      key: 'κλειδί',
      headers: { many: ['a', Uint8Array.of(255)] },
      createdAt: new Date('2026-11-30T10:00:00.5Z'),
    });
    expectAllOk(await publish(transport, [message]));
    await transport.close!();
    const [[, fields]] = (await observer.entries(`${observer.prefix}:größe`)) as [[Buffer, Buffer[]]];
    expect(fields.map((field) => field.toString('latin1'))).toEqual(
      [
        ...['app', 'shop', 'many', 'a', 'many', Buffer.of(255)],
        ...['id', message.id, 'type', 'contract.tested', 'version', '1', 'time', '2026-11-30T10:00:00.500Z'],
        ...['content-type', 'application/json', 'key', 'κλειδί', 'payload', '{}'],
      ].map((field) => Buffer.from(field).toString('latin1')),
    );
  });

  it('maxLength: Redis trims, and the start warns of it', async () => {
    const [options, topic] = [{ maxLength: 1_000 }, observer.stream()];
    expect(define(options).warnings).toEqual([expect.stringContaining('that no consumer has read')]);
    expect(define().warnings).toEqual([]);
    const transport = await connected({ url: requiredUrl('redis'), ...options });
    expectAllOk(
      await publish(
        transport,
        Array.from({ length: 3_000 }, () => contractMessage({ topic })),
      ),
    );
    await transport.close!();
    expect(await observer.client.xlen(topic)).toBeLessThan(1_500);
  });

  it('is refused at the enqueue: a header that is a field of the outbox, a payload above the limit', () => {
    const limited = define({ maxPayloadBytes: 10 });
    const plain = { type: 't', topic: 't', key: null, payload: {} };
    for (const name of ['id', 'type', 'version', 'time', 'content-type', 'key', 'payload'])
      expect(enqueued({ ...plain, headers: { [name]: 'x' } }, limited)).toMatchObject({
        code: 'INVALID_MESSAGE',
        message: expect.stringContaining(`the header ${name} is a field`),
      });
    expect(enqueued({ ...plain, payload: 'x'.repeat(20) }, limited)).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });

  it.each<[string, unknown]>([
    ['url or client must be given', {}],
    ['url must be redis://host or rediss://host', { url: 'http://host' }],
    ['url must be redis://host or rediss://host', { url: 'redis://u:p/w@host' }],
    ['client.keyPrefix must be left out: give streamPrefix', { client: { keyPrefix: 'x' } }],
    ['waitReplicas.replicas must be a whole number', { url: 'redis://h', waitReplicas: { timeout: 10 } }],
    [
      'waitReplicas.timeout must be a duration from 1ms',
      { url: 'redis://h', waitReplicas: { replicas: 1, timeout: 0 } },
    ],
    ['maxLength must be a whole number', { url: 'redis://h', maxLength: 0 }],
    ['headers: the header id is a field', { url: 'redis://h', headers: { id: 'x' } }],
  ])('options: %s', (text, options) => {
    expect(() => redis(options as RedisOptions)).toThrow(text);
  });

  it.each<[string, RedisOptions]>([
    ['url must be redis://host', { url: () => process.env['NOT_THERE'] as string, client: { connectTimeout: 1_000 } }],
    ['client must be an object', { client: () => undefined as never }],
    ['client.keyPrefix must be left out', { client: async () => ({ keyPrefix: 'x' }) }],
  ])('what a function gives is checked, and nothing is no server on this machine: %s', async (text, options) => {
    await expect(connected(options)).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringContaining(text),
    });
  });

  it('options in the URL change no name', async () => {
    const [stream, url] = [observer.stream(), new URL(requiredUrl('redis'))];
    url.searchParams.set('keyPrefix', `${stream}-`);
    const transport = await connected({ url: url.href });
    expectAllOk(await publish(transport, [contractMessage({ topic: stream })]));
    await transport.close!();
    expect(await observer.client.xlen(stream)).toBe(1);
  });

  it('names the server without its password', () => {
    expect(define({ url: 'redis://user:secret@broker:6380/2' }).broker).toBe('broker:6380');
    const sentinels = [{ host: 'a', port: 1 }, { host: 'b' }];
    expect(redis({ client: { sentinels, name: 'shop', password: 'secret' } }).broker).toBe('a:1, b');
  });
});

describeWith(['postgres', 'redis'], 'a stream that takes nothing', () => {
  it('R2: its messages wait, others go on, and all arrive when it is there', async () => {
    const observer = new RedisObserver(requiredUrl('redis'));
    const harness = await createHarness('postgres', { retry: { maxAttempts: 1 }, pollInterval: 50 });
    const [bad, good] = [observer.stream(), observer.stream()];
    await observer.client.xgroup('CREATE', good, 'readers', '0', 'MKSTREAM');
    const transport = await redis({ url: requiredUrl('redis'), createStreams: false }).create();
    const tries = watch(transport);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    const enqueue = (topic: string, count: number) =>
      harness.enqueue(Array.from({ length: count }, (_, n) => ({ topic, key: `${topic} ${n % 10}` })));
    const waiting = new Set(await enqueue(bad, 300));
    await dispatcher.start();
    const { error } = await hooks.until('destinationAway');
    expect(error).toContain('XGROUP CREATE');
    const through = await enqueue(good, 50);
    expect((await observer.received(good, 50)).map(({ id }) => id).sort()).toEqual([...through].sort());
    const tried = tries.flatMap(({ ids }) => ids).filter((id) => waiting.has(id)).length;
    for (const id of await enqueue(bad, 300)) waiting.add(id);
    await until(async () => (await harness.count('ready')) === 0);
    expect(tries.flatMap(({ ids }) => ids).filter((id) => waiting.has(id)).length - tried).toBeLessThan(50);
    await observer.client.xgroup('CREATE', bad, 'readers', '0', 'MKSTREAM');
    const arrived = (await observer.received(bad, waiting.size)).map(({ id }) => id);
    expect(new Set(arrived)).toEqual(waiting);
    await until(async () => (await harness.count('parked')) === 0);
    expect([hooks.of('dead'), hooks.of('circuitOpened')]).toEqual([[], []]);
    await harness.close();
    await observer.close();
  });
});

describeWithOwnRedis('what Redis is asked', () => {
  let server: OwnRedis;
  beforeAll(async () => {
    server = await OwnRedis.start();
  });
  afterAll(() => server.remove());
  const question = (...topics: string[]) => ({
    transport: 'events',
    outage: null,
    expected: topics.map((topic) => ({ topic, options: {} })),
  });
  const diagnose = async (options: Partial<RedisOptions>, ...topics: string[]): Promise<readonly Finding[]> => {
    const transport = await redis({ url: server.url, ...options }).create();
    const findings = await transport.diagnose!(question(...topics), AbortSignal.timeout(60_000));
    return findings.filter(({ severity }) => severity !== 'ok');
  };
  const set = (name: string, value: string) => server.client.config('SET', name, value);

  it('which streams take nothing, and makes none', async () => {
    await server.client.set('text', '');
    await server.client.xgroup('CREATE', 'there', 'g', '0', 'MKSTREAM');
    const { expected } = question('text', 'there', 'none', 'text');
    for (const createStreams of [true, false]) {
      const transport = await connected({ url: server.url, createStreams });
      const missing = await transport.findMissing!(expected, AbortSignal.timeout(60_000));
      const names = createStreams ? ['text'] : ['text', 'none'];
      expect(missing.map(({ destination }) => destination)).toEqual(names.map((name) => `stream "${name}"`));
      await transport.close!();
    }
    expect(await server.client.exists('none')).toBe(0);
  });

  it('of a cluster: which streams are on another node', async () => {
    const [here, there] = [await OwnRedis.start(CLUSTER), await OwnRedis.start(CLUSTER)];
    await here.client.call('CLUSTER', 'ADDSLOTSRANGE', 0, 8191);
    await there.client.call('CLUSTER', 'ADDSLOTSRANGE', 8192, 16383);
    await here.client.call('CLUSTER', 'MEET', '127.0.0.1', there.port);
    await until(async () => String(await here.client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
    const [a, b] = await Promise.all(['a', 'b'].map((name) => here.client.call('CLUSTER', 'KEYSLOT', name)));
    expect([Number(a) > 8191, Number(b) > 8191]).toEqual([true, false]);
    expect(await diagnose({ url: here.url }, 'a', 'b')).toContainEqual(
      expect.objectContaining({ code: 'destination-missing', text: expect.stringContaining('MOVED') }),
    );
    await here.remove();
    await there.remove();
  });

  it('what a crash, an eviction or a failover loses', async () => {
    expect(await diagnose({})).toMatchObject([{ code: 'persistence', severity: 'warning' }]);
    await set('appendonly', 'yes');
    expect(await diagnose({})).toMatchObject([{ code: 'persistence', severity: 'note' }]);
    await set('appendfsync', 'always');
    await set('no-appendfsync-on-rewrite', 'yes');
    expect(await diagnose({})).toMatchObject([{ code: 'persistence', severity: 'warning' }]);
    await set('no-appendfsync-on-rewrite', 'no');
    expect(await diagnose({})).toEqual([]);
    await set('maxmemory-policy', 'allkeys-lru');
    expect(await diagnose({})).toMatchObject([{ code: 'eviction', severity: 'warning' }]);
    await set('maxmemory-policy', 'noeviction');
    expect(await diagnose({ waitReplicas: { replicas: 1 } })).toMatchObject([{ code: 'replicas', severity: 'error' }]);
    const replica = await OwnRedis.start({ replicaof: `127.0.0.1 ${server.port}` });
    await until(async () => (await diagnose({})).length > 0);
    expect(await diagnose({})).toMatchObject([{ code: 'replicas', severity: 'note' }]);
    expect(await diagnose({ url: replica.url })).toContainEqual(
      expect.objectContaining({ code: 'broker', severity: 'error', fix: expect.stringContaining('master') }),
    );
    await replica.remove();
  });

  it('streams that are missing or read by nobody; and what the login may not ask', async () => {
    await server.client.xadd('unread', '*', 'a', 'b');
    expect(await diagnose({ createStreams: false }, 'unread', 'none', 'text')).toMatchObject([
      { code: 'consumer-missing', severity: 'note', evidence: { destination: 'stream "unread"' } },
      { code: 'destination-missing', severity: 'error', fix: expect.stringContaining('XGROUP CREATE') },
      { code: 'destination-missing', severity: 'error', text: expect.stringContaining('WRONGTYPE') },
    ]);
    await server.client.call('ACL', 'SETUSER', 'teller', 'on', '>secret', '+ping', '+xadd', '~*');
    const url = server.url.replace('//', '//teller:secret@');
    expect(await diagnose({ url }, 'unread')).toMatchObject([{ code: 'not-asked', severity: 'note' }]);
  });
});

const CLUSTER = { 'cluster-enabled': 'yes', 'cluster-require-full-coverage': 'no' };
