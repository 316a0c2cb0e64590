import { OutboxMessageError, type OutboxTransport } from '../../../lib/index.js';
import { nats, type NatsOptions } from '../../../lib/transports/nats/index.js';
import { enqueued } from '../../support/enqueue.js';
import { NatsObserver } from '../../support/nats.js';
import { publish } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';

const long = (bytes: number): string => 'x'.repeat(bytes);
const client = { servers: '127.0.0.1:1' };

describeWith('nats', 'what NATS can carry', () => {
  let observer: NatsObserver;
  let topic: string;
  let transport: OutboxTransport;
  const definition = () => nats({ client: { servers: requiredUrl('nats') } });
  beforeAll(async () => {
    observer = await NatsObserver.connect(requiredUrl('nats'));
    topic = await observer.stream();
    await observer.edit(topic, { subjects: [topic, `${topic}.>`] });
    transport = await definition().create();
  });
  afterAll(async () => {
    await transport?.close!();
    await observer?.close();
  });

  /** Either refused at enqueue, or taken and received as it was: nothing between. */
  async function verdict(input: object): Promise<string> {
    const message = enqueued({ type: 'x', topic, key: null, payload: 'y', ...input }, definition());
    if (message instanceof Error) {
      expect(message).toBeInstanceOf(OutboxMessageError);
      return message.message;
    }
    expect(await publish(transport, [message])).toEqual([{ ok: true }]);
    const found = (await observer.receivedAll(topic, [message.id])).find(({ id }) => id === message.id)!;
    expect(found).toMatchObject({ subject: message.topic, key: message.key });
    expect(found.headers).toMatchObject({ type: message.type, ...message.headers });
    expect(message.payload!.equals(found.payload!)).toBe(true);
    return 'delivered';
  }

  it.each<[string, object, RegExp]>([
    ['bytes in a header', { headers: { b: Uint8Array.of(1) } }, /the header b is no text/],
    ['a line break in a header', { headers: { b: 'a\nb' } }, /the header b has a line break/],
    ['a space at the end of a header', { headers: { b: ['a', 'b '] } }, /begins or ends with a space/],
    ['a colon in a name', { headers: { 'a:b': 'c' } }, /header name/],
    ['an umlaut in a name', { headers: { ä: 'c' } }, /header name/],
    ['a name of the server', { headers: { 'nats-ttl': '1s' } }, /reserved/],
    ['a name of the outbox', { headers: { tombstone: 'true' } }, /reserved/],
    ['a line break in a key', { key: 'a\rb' }, /key has a line break/],
    ['a space before a key', { key: ' a' }, /key begins or ends with a space/],
    ['too many values', { headers: { n: Array.from({ length: 200 }, () => long(320)) } }, /headers/],
  ])('%s: refused', async (_, input, problem) => expect(await verdict(input)).toMatch(problem));

  it.each(['', '.', 'a..b', '.a', 'a.', 'a b', 'a\tb', 'a.*', 'a.>', 'a*', '$JS.API.INFO', '$KV.a', '_INBOX.a'])(
    'the topic %j: refused',
    (bad) => expect(definition().limits!.checkTopic!(bad)).toMatch(/^makes a subject/),
  );

  it.each<[string, object]>([
    ['a key and a header of any letters', { key: 'Größe/👋', headers: { ü: 'x' } }],
    ['a header of any letters', { headers: { city: 'Zürich 👋 "x": y' } }],
    ['names of ASCII', { headers: { "!#$%&'*+-.^_`|~": 'y', CamelCase: 'z', __proto_: 'p' } }],
    ['32 KiB of headers', { headers: { h: long(16_000), i: long(16_700) } }],
    ['tokens, umlauts, dashes', { topic: undefined }],
    ['the longest key and type', { key: 'k'.repeat(255), type: 't'.repeat(255) }],
  ])('%s', async (what, input) => {
    const given = what.startsWith('tokens') ? { topic: `${topic}.größe.a-b_c/d:e.1` } : input;
    expect(await verdict(given)).toMatch(what.startsWith('a key') ? /header name/ : /^delivered$/);
  });

  it('the largest payload that enqueue takes is taken by the server, also with headers', async () => {
    const { payloadBytes } = definition().limits!;
    const largest = { payload: Buffer.alloc(payloadBytes!, 'x'), contentType: 'application/octet-stream' };
    expect(await verdict({ ...largest, key: 'k'.repeat(255) })).toBe('delivered');
    expect(await verdict({ payload: Buffer.alloc(payloadBytes! + 1) })).toMatch(/payload/i);
    expect(await verdict({ ...largest, headers: { h: long(10_000) } })).toMatch(/more than maxPayloadBytes/);
  });

  it.each<[string, object]>([
    ['client must be', {}],
    ['client.servers must be', { client: { servers: [] } }],
    ['no user and no password', { client: { servers: 'nats://user:secret@host' } }],
    ['not be WebSockets', { client: { servers: ['wss://host'] } }],
    ["did you mean 'client.servers'", { client, servers: 'host' }],
    ['subjectPrefix makes a subject with a wildcard', { client, subjectPrefix: 'a.*.' }],
    ['subjectPrefix makes a subject with an empty token', { client, subjectPrefix: '.' }],
    ['stream must be', { client, stream: 'a.b' }],
    ['deduplicate must be true or false', { client, deduplicate: 'yes' }],
    ['the header id is', { client, headers: { id: Uint8Array.of(1) } }],
    ['maxPayloadBytes must be', { client, maxPayloadBytes: 100 }],
  ])('options: %s', (problem, options) => {
    const make = () => nats(options as NatsOptions);
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
    expect(make).toThrow(problem.startsWith('the header id') ? /header name id is reserved/ : problem);
    expect(make).not.toThrow('secret');
  });

  it('is inert, tells the address, and warns of what it is told to leave out', () => {
    const given = nats({ client: { servers: ['nats://a:1', 'b'] }, deduplicate: false });
    expect(given).toMatchObject({ kind: 'nats', broker: 'a:1, b', receipt: 'broker' });
    expect(given.warnings).toEqual([expect.stringContaining('deduplicate')]);
    expect(nats({ client: {} })).toMatchObject({ broker: '127.0.0.1:4222', warnings: [] });
    expect(nats({ client: () => ({}) })).not.toHaveProperty('broker');
  });
});
