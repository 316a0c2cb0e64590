import type { OutboxTransport, PublishResult } from '../../../lib/index.js';
import { nats, type NatsOptions } from '../../../lib/transports/nats/index.js';
import { NatsObserver } from '../../support/nats.js';
import { contractMessage, expectAllOk, publish, type ContractMessageFields } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';

describeWith('nats', 'whose fault it is what JetStream says', () => {
  let observer: NatsObserver;
  let good: string;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    observer = await NatsObserver.connect(requiredUrl('nats'));
    good = await observer.stream();
  });
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close!();
  });
  afterAll(() => observer?.close());

  const open = async (options: Partial<NatsOptions> = {}) => {
    const transport = await nats({ client: { servers: requiredUrl('nats') }, ...options }).create();
    opened.push(transport);
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  };
  /** Between two that are taken. */
  const publishAmong = async (transport: OutboxTransport, fields: ContractMessageFields) => {
    const batch = [{ topic: good }, fields, { topic: good }].map(contractMessage);
    const [before, result, behind] = await publish(transport, batch);
    expectAllOk([before!, behind!]);
    return result!;
  };
  const waits = (topic: string, reason: string, errorCode?: number): PublishResult => ({
    ...{ ok: false, blame: 'transport', suspect: 'destination', destination: `subject "${topic}"`, certain: true },
    error: expect.objectContaining({ code: 'PUBLISH_REJECTED', reason, errorCode }),
  });
  const dies = (reason: string, errorCode?: number): PublishResult => ({
    ...{ ok: false, blame: 'message', final: true },
    error: expect.objectContaining({ code: 'PUBLISH_REJECTED', reason, errorCode }),
  });

  it('C13: a subject that no stream takes is away, until one does', async () => {
    const [transport, topic] = [await open(), observer.unusedName()];
    const away = waits(topic, 'no-stream');
    expect(await publishAmong(transport, { topic })).toEqual(away);
    const signal = AbortSignal.timeout(60_000);
    const expected = [topic, good].map((each) => ({ topic: each, options: null }));
    expect(await transport.findMissing!(expected, signal)).toEqual([
      { destination: `subject "${topic}"`, error: expect.objectContaining({ reason: 'no-stream' }) },
    ]);
    await observer.edit(good, { subjects: [good, topic] });
    expect(await publishAmong(transport, { topic })).toEqual({ ok: true });
    expect(await transport.findMissing!(expected, signal)).toEqual([]);
    expect(transport.destinationOf!(contractMessage({ topic }))).toBe(`subject "${topic}"`);
  });

  it.each([
    ['messages', { max_msgs: 1 }, 'x'],
    ['bytes', { max_bytes: 700 }, 'x'.repeat(300)],
    ['messages of a subject', { max_msgs_per_subject: 1, discard_new_per_subject: true }, 'x'],
  ])('a stream that is full of %s is away, until there is room', async (_, limits, payload) => {
    const topic = await observer.stream({ discard: 'new' as never, ...limits });
    const transport = await open();
    await publish(transport, [contractMessage({ topic, payload })]);
    expect(await publishAmong(transport, { topic, payload })).toEqual(waits(topic, 'full', 10077));
    await observer.manager.streams.purge(topic);
    expect(await publishAmong(transport, { topic, payload })).toEqual({ ok: true });
  });

  it('another stream than the expected one has the subject, and a stream that was sealed', async () => {
    const topic = await observer.stream();
    const transport = await open({ stream: good });
    expect(await publishAmong(transport, { topic })).toEqual(waits(topic, 'refused', 10060));
    const other = await open();
    await observer.edit(topic, { sealed: true });
    expect(await publishAmong(other, { topic })).toEqual(waits(topic, 'refused', 10109));
  });

  it('what is larger than the stream takes dies at once', async () => {
    const topic = await observer.stream({ max_msg_size: 1_000 });
    const transport = await open();
    expect(await publishAmong(transport, { topic, payload: 'x'.repeat(1_000) })).toEqual(dies('refused', 10054));
    expect(await publishAmong(transport, { topic })).toEqual({ ok: true });
  });

  it.each<[string, ContractMessageFields]>([
    ['a wildcard in the subject', { topic: 'orders.*' }],
    ['a line break in the subject', { topic: 'orders 0\r\nPUB other 0\r\n\r\n' }],
    ['a subject of the server', { topic: '$JS.API.STREAM.DELETE.orders' }],
    ['a line break in a key', { topic: 'orders', key: 'a\r\nNats-Rollup: all' }],
    ['bytes in a header', { topic: 'orders', headers: { bytes: Uint8Array.of(1) } }],
    ['a header of the server', { topic: 'orders', headers: { 'Nats-Rollup': 'all' } }],
    ['more than the server takes', { topic: 'orders', payload: Buffer.alloc(1_048_577) }],
  ])('a row of another program with %s is not sent, and dies', async (_, fields) => {
    expect(await publishAmong(await open(), fields)).toEqual(dies('not-encodable'));
  });

  it('C12: what is sent again within the window is stored once; without deduplicate, twice', async () => {
    const topic = await observer.stream();
    const [message, again] = [contractMessage({ topic }), contractMessage({ topic })];
    const [transport, other, twice] = [await open(), await open(), await open({ deduplicate: false })];
    for (const each of [transport, other]) expectAllOk(await publish(each, [message]));
    for (const each of [twice, twice]) expectAllOk(await publish(each, [again]));
    expect((await observer.received(topic, 3)).map(({ id }) => id)).toEqual([message.id, again.id, again.id]);
    expect(await observer.depth(topic)).toBe(3);
  });

  it('a stream that knows the id and kept nothing answers all the same: it is put off, and the connection stays', async () => {
    const topic = await observer.stream({ retention: 'interest' as never });
    const [transport, message] = [await open(), contractMessage({ topic })];
    expectAllOk(await publish(transport, [message]));
    expect(await publish(transport, [message])).toEqual([{ ...waits(topic, 'refused'), certain: undefined }]);
    expect(transport.health!()).toEqual({ up: true, state: 'connected' });
  });

  it('somebody else who answers is no stream: what the stream says counts, and nothing else', async () => {
    const topic = await observer.stream();
    const [lost, transport] = [observer.unusedName(), await open()];
    for (const subject of [topic, lost])
      observer.connection.subscribe(subject, {
        callback: (_, message) => void message.respond('{"stream":"","seq":1,"error":{"message":"no"}}'),
      });
    await observer.connection.flush();
    expect(await publishAmong(transport, { topic })).toEqual({ ok: true });
    const end = [lost, good].map((each) => contractMessage({ topic: each }));
    const [silent, taken] = await publish(transport, end, 1_000);
    expect(taken).toEqual({ ok: true });
    const [error, destination] = [{ code: 'PUBLISH_TIMEOUT' }, `subject "${lost}"`];
    expect(silent).toMatchObject({ blame: 'transport', suspect: 'destination', destination, error });
    // It has left the process, so the connection stays.
    expect(transport.health!()).toEqual({ up: true, state: 'connected' });
  });

  it('headers of transport and message, the prefix, and the expected stream are on the wire', async () => {
    const topic = await observer.stream();
    const { prefix } = observer;
    const transport = await open({ subjectPrefix: `${prefix}-`, stream: topic, headers: { app: 'shop', x: 'own' } });
    const message = contractMessage({
      ...{ topic: topic.slice(prefix.length + 1), key: 'Größe/1 ü', type: 'order.placed', version: 3 },
      headers: { x: 'y', many: ['a', 'b'], empty: '' },
      createdAt: new Date('2026-11-21T10:05:01.500Z'),
    });
    expectAllOk(await publish(transport, [message]));
    const [found] = await observer.received(topic, 1);
    expect(found).toMatchObject({ subject: topic, key: 'Größe/1 ü' });
    expect(found!.headers).toEqual({
      ...{ 'Nats-Msg-Id': message.id, 'Nats-Expected-Stream': topic, app: 'shop', x: 'y', many: ['a', 'b'], empty: '' },
      ...{ id: message.id, type: 'order.placed', version: '3', time: '2026-11-21T10:05:01.500Z', key: 'Größe/1 ü' },
      'content-type': 'application/json',
    });
  });

  it('twenty thousand at once arrive, each key in order', async () => {
    const [topic, transport] = [await observer.stream({ storage: 'memory' as never }), await open()];
    const rounds = Array.from({ length: 4 }, () =>
      Array.from({ length: 5_000 }, (_, n) => contractMessage({ topic, key: `k${n}` })),
    );
    for (const batch of rounds) expectAllOk(await publish(transport, batch));
    await until(async () => (await observer.depth(topic)) === 20_000);
    const found = await observer.received(topic, 20_000);
    expect(found.filter(({ key }) => key === 'k7').map(({ id }) => id)).toEqual(rounds.map((batch) => batch[7]!.id));
  });
});
