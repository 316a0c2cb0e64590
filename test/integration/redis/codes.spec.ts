import { inspect } from 'node:util';
import type { OutboxTransport } from '../../../lib/index.js';
import { redis, type RedisOptions } from '../../../lib/transports/redis/index.js';
import { describeWithOwnRedis, OwnRedis } from '../../support/redis-server.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';

type Change = (server: OwnRedis, stream: string) => Promise<unknown>;

describeWithOwnRedis('whose fault it is what Redis says', () => {
  let server: OwnRedis;
  let made = 0;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    server = await OwnRedis.start();
  });
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close!();
  });
  afterAll(() => server.remove());

  const open = async (options: Partial<RedisOptions> = {}): Promise<OutboxTransport> => {
    const transport = await redis({ url: server.url, ...options }).create();
    opened.push(transport);
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  };
  const stream = (): string => `stream-${(made += 1)}`;
  const config =
    (name: string, value: string): Change =>
    async ({ client }) =>
      client.config('SET', name, value);
  const error = (code: string, said: string) =>
    expect.objectContaining({
      code,
      message: expect.stringContaining(said),
      cause: expect.not.objectContaining({ command: expect.anything() }),
    });

  /** True of one stream: it is put off, and nothing else. */
  const OF_THE_STREAM: [said: string, prepare: Change, options: Partial<RedisOptions>][] = [
    ['WRONGTYPE', ({ client }, name) => client.set(name, 'no stream'), {}],
    ['NOSTREAM', async () => undefined, { createStreams: false }],
    [
      'the last possible ID',
      ({ client }, name) => client.xadd(name, '18446744073709551615-18446744073709551615', 'a', 'b'),
      {},
    ],
  ];
  it.each(OF_THE_STREAM)('%s: its destination’s, and neighbours get through', async (said, prepare, options) => {
    const [transport, good, bad] = [await open(options), stream(), stream()];
    await server.client.xgroup('CREATE', good, 'g', '0', 'MKSTREAM');
    await prepare(server, bad);
    const batch = [good, bad, good].map((topic) => contractMessage({ topic }));
    const destination = `stream "${bad}"`;
    const failure = {
      ok: false,
      blame: 'transport',
      suspect: 'destination',
      destination,
      certain: true,
      error: error('PUBLISH_REJECTED', said),
    };
    expect(await publish(transport, batch)).toEqual([{ ok: true }, failure, { ok: true }]);
    expect(transport.destinationOf!(batch[1]!)).toBe(destination);
    expect(transport.health!()).toEqual({ up: true, state: 'connected' });
  });

  it('NOPERM of a key: its destination’s; of a command: the transport’s', async () => {
    const acl = (...rules: string[]) => server.client.call('ACL', 'SETUSER', 'teller', ...rules);
    await acl('on', '>secret', '+ping', '+xadd', '~mine-*');
    const url = server.url.replace('//', '//teller:secret@');
    const [transport, other] = [await open({ url }), stream()];
    const [mine, foreign] = [contractMessage({ topic: `mine-${other}` }), contractMessage({ topic: other })];
    expect(await publish(transport, [mine, foreign])).toMatchObject([
      { ok: true },
      { blame: 'transport', suspect: 'destination', destination: `stream "${other}"`, certain: true },
    ]);
    await acl('-xadd');
    expect(await publish(transport, [mine])).toEqual([
      { ok: false, blame: 'transport', error: error('TRANSPORT_UNAVAILABLE', 'NOPERM') },
    ]);
  });

  /** Nobody's, and it goes on when the reason is gone. */
  const OF_THE_SERVER: [said: string, begin: Change, end: Change][] = [
    ['OOM', config('maxmemory', '1'), config('maxmemory', '0')],
    ['NOREPLICAS', config('min-replicas-to-write', '1'), config('min-replicas-to-write', '0')],
    ['READONLY', ({ client }) => client.replicaof('127.0.0.1', '1'), ({ client }) => client.replicaof('NO', 'ONE')],
  ];
  it.each(OF_THE_SERVER)('%s: nobody’s, until it is over', async (said, begin, end) => {
    const [transport, topic] = [await open(), stream()];
    await begin(server, topic);
    const batch = [contractMessage({ topic }), contractMessage({ topic })];
    const failure = { ok: false, blame: 'transport', error: error('TRANSPORT_UNAVAILABLE', said) };
    expect(await publish(transport, batch)).toEqual([failure, failure]);
    expect(await server.client.exists(topic)).toBe(0);
    await end(server, topic);
    expectAllOk(await publish(transport, batch));
  });

  it('BUSY: nobody’s, until the script has ended', async () => {
    await server.client.config('SET', 'busy-reply-threshold', '1');
    const [transport, topic] = [await open(), stream()];
    const script = server.client.duplicate();
    const ended = script.eval('while true do end', 0).catch(String);
    const batch = [contractMessage({ topic })];
    let results = await publish(transport, batch);
    while (results[0]!.ok) results = await publish(transport, batch); // until the script runs
    expect(results).toEqual([{ ok: false, blame: 'transport', error: error('TRANSPORT_UNAVAILABLE', 'BUSY') }]);
    await server.client.script('KILL' as never);
    expect(await ended).toContain('killed');
    script.disconnect();
    expectAllOk(await publish(transport, batch));
  });

  it('a payload above proto-max-bulk-len: the message’s, and the next one gets through', async () => {
    await server.client.config('SET', 'proto-max-bulk-len', '1mb');
    const [transport, topic] = [await open(), stream()];
    const huge = contractMessage({ topic, payload: Buffer.alloc(2_000_000) });
    const [result] = await publish(transport, [huge]);
    const refusal = { blame: 'message', final: true, error: error('PUBLISH_REJECTED', 'invalid bulk length') };
    // The server closes while it is still being written to, which may lose its answer.
    const noAnswer = { blame: 'transport', suspect: 'message', error: error('TRANSPORT_UNAVAILABLE', 'Redis') };
    expect([refusal, noAnswer].map((each) => ({ ok: false, ...each }))).toContainEqual(result);
    expectAllOk(await publish(transport, [contractMessage({ topic })]));
  });

  it.each<[string, Partial<RedisOptions>]>([
    ['WRONGPASS', { client: { username: 'nobody', password: 's3cret-canary' } }],
    ['ERR', { client: { db: 99 } }],
  ])('%s at the login: nobody’s, and says no password', async (code, options) => {
    const transport = await redis({ url: server.url, ...options }).create();
    opened.push(transport);
    await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toMatchObject({ code });
    const results = await publish(transport, [contractMessage({ topic: stream() })]);
    expect(results).toEqual([{ ok: false, blame: 'transport', error: error('TRANSPORT_UNAVAILABLE', code) }]);
    expect(JSON.stringify([results, transport.health!()])).not.toContain('s3cret-canary');
  });

  it('a server that is full: says so at once', async () => {
    await server.client.config('SET', 'maxclients', '1');
    try {
      await expect(open()).rejects.toThrow('max number of clients reached');
    } finally {
      await server.client.config('SET', 'maxclients', '100');
    }
  });

  it('a command that the server does not know: its arguments stay behind', async () => {
    const other = await OwnRedis.start({ 'rename-command XADD': '""', 'rename-command AUTH': '""' });
    const transport = await open({ url: other.url });
    const message = contractMessage({ topic: stream(), headers: { authorization: 's3cret-canary' } });
    const results = await publish(transport, [message]);
    expect(results).toEqual([
      { ok: false, blame: 'transport', error: error('TRANSPORT_UNAVAILABLE', "unknown command 'xadd'") },
    ]);
    expect(inspect(results, { depth: 9 })).not.toContain('s3cret-canary');
    const login = await open({ url: other.url.replace('//', '//me:s3cret-canary@') }).catch(inspect);
    expect(login).toContain("unknown command 'auth'");
    expect(login).not.toContain('s3cret-canary');
    await other.remove();
  });

  it('a login that is deleted while it is connected: nobody’s', async () => {
    await server.client.call('ACL', 'SETUSER', 'gone', 'on', '>secret', '+@all', '~*');
    const transport = await open({ url: server.url.replace('//', '//gone:secret@') });
    const states: string[] = [];
    const down = new Promise<void>((resolve) => {
      void transport.connect!(AbortSignal.timeout(60_000), (state) => {
        states.push(state);
        if (state === 'down') resolve();
      });
    });
    await server.client.call('ACL', 'DELUSER', 'gone');
    await down;
    expect(await publish(transport, [contractMessage({ topic: stream() })])).toMatchObject([
      { blame: 'transport', error: error('TRANSPORT_UNAVAILABLE', 'WRONGPASS') },
    ]);
    expect(transport.health!()).toMatchObject({ up: false });
  });
});
