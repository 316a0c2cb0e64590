import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import type { OutboxMessage, OutboxTransport } from '../../../lib/index.js';
import { disconnected, judge, refusedMessage } from '../../../lib/transports/mqtt/errors.js';
import { mqtt, type MqttOptions } from '../../../lib/transports/mqtt/index.js';
import { CANARY } from '../../security/canaries.js';
import { MqttNode } from '../../support/mqtt-node.js';
import { MqttObserver } from '../../support/mqtt.js';
import { contractMessage, publish } from '../../support/publish.js';
import { describeUnlessMissing } from '../../support/services.js';

const opened: OutboxTransport[] = [];
const nodes: MqttNode[] = [];
const servers: Server[] = [];
afterEach(async () => {
  for (const transport of opened.splice(0)) await transport.close?.();
});
afterAll(async () => {
  for (const node of nodes) await node.remove();
  for (const server of servers) server.close();
});

async function create(options: MqttOptions): Promise<OutboxTransport> {
  const transport = await mqtt(options).create();
  opened.push(transport);
  return transport;
}
async function startNode(...settings: Parameters<typeof MqttNode.start>): Promise<MqttNode> {
  const node = await MqttNode.start(...settings);
  nodes.push(node);
  return node;
}
const rejection = (transport: OutboxTransport): Promise<unknown> =>
  transport.connect!(AbortSignal.timeout(30_000)).then(
    () => undefined,
    (error: unknown) => error,
  );

describe('whose fault a reason code of MQTT is', () => {
  const [message, topic] = [{ fault: 'message' }, { destination: 'topic "orders"' }];
  const either = { fault: 'either' };
  const ofTopic = { fault: 'transport', suspect: 'destination', ...topic };
  it.each([
    [0x10, { ...ofTopic, certain: true }],
    [0x80, either],
    [0x83, either],
    [0x87, ofTopic],
    [0x90, { fault: 'destination', ...topic }],
    [0x91, { fault: 'transport' }],
    [0x97, ofTopic],
    [0x99, message],
    [0xff, either],
  ])('PUBACK %d', (code, verdict) => {
    expect(judge(refusedMessage('orders', code), 'orders')).toEqual(verdict);
  });

  it.each([
    [undefined, { fault: 'transport', suspect: 'message' }],
    [0x82, either],
    [0x87, either],
    [0x8b, { fault: 'transport' }],
    [0x8e, { fault: 'transport' }],
    [0x95, either],
    [0x97, { fault: 'transport' }],
  ])('DISCONNECT %s', (code, verdict) => {
    expect(judge(disconnected(code))).toEqual(verdict);
  });
});

describeUnlessMissing(MqttNode.isInstalled ? [] : ['mqtt'], 'what a Mosquitto answers to mqtt()', () => {
  let node: MqttNode;
  let observer: MqttObserver;
  beforeAll(async () => {
    node = await startNode(
      ['acl_file %/acl', 'message_size_limit 1000', 'max_packet_size 20000'],
      {},
      {
        acl: 'topic deny secret/#\ntopic readwrite #\n',
      },
    );
    observer = await MqttObserver.connect(node.url);
  });
  afterAll(() => observer.close());

  const failed = async (message: OutboxMessage, options: Partial<MqttOptions> = {}) =>
    (await publish(await create({ url: node.url, ...options }), [message]))[0];

  it('C14: 0x10: no subscriber is a missing destination, and nobody else’s', async () => {
    const [topic, missing] = [await observer.topic(), observer.unusedTopic()];
    const transport = await create({ url: node.url });
    const lost = contractMessage({ topic: missing });
    const results = await publish(transport, [contractMessage({ topic }), lost, contractMessage({ topic })]);
    const destination = `topic "${missing}"`;
    expect(results).toEqual([
      { ok: true },
      {
        ok: false,
        blame: 'transport',
        suspect: 'destination',
        certain: true,
        destination,
        error: expect.objectContaining({ code: 'PUBLISH_REJECTED', reason: 'no-subscribers', reasonCode: 0x10 }),
      },
      { ok: true },
    ]);
    expect(transport.destinationOf!(lost)).toBe(destination);
  });

  it('0x10 with mandatory: false counts as published, and the start warns', async () => {
    expect(await failed(contractMessage({ topic: observer.unusedTopic() }), { mandatory: false })).toEqual({
      ok: true,
    });
    expect(mqtt({ url: node.url, mandatory: false }).warnings).toEqual([expect.stringContaining('mandatory: false')]);
    expect(mqtt({ url: node.url }).warnings).toEqual([]);
  });

  it('0x10 of a retained message counts as published: the broker keeps it, until a tombstone deletes it', async () => {
    const [topic, options] = [observer.unusedTopic(), { mqtt: { retain: true } }];
    expect(await failed(contractMessage({ topic, options }))).toEqual({ ok: true });
    await observer.client.subscribeAsync(topic, { qos: 1 });
    expect(await observer.received(topic, 1)).toMatchObject([{ retain: true }]);
    expect(await failed(contractMessage({ topic, options, payload: null }))).toEqual({ ok: true });
    await observer.received(topic, 2);
    await observer.client.subscribeAsync(topic, { qos: 1 });
    expect(await observer.total(topic)).toBe(2);
  });

  it('0x87: a refused right is the topic’s, and others get through', async () => {
    const topic = await observer.topic();
    const results = await publish(await create({ url: node.url }), [
      contractMessage({ topic: 'secret/orders' }),
      contractMessage({ topic }),
    ]);
    const destination = 'topic "secret/orders"';
    const error = expect.objectContaining({ reason: 'refused', reasonCode: 0x87 });
    expect(results).toEqual([
      { ok: false, blame: 'transport', suspect: 'destination', destination, error },
      { ok: true },
    ]);
  });

  it('what is larger than the broker takes is the message’s, and is not sent', async () => {
    const topic = await observer.topic();
    const large = contractMessage({ topic, payload: 'x'.repeat(20_000) });
    const results = await publish(await create({ url: node.url }), [large, contractMessage({ topic })]);
    const error = expect.objectContaining({ reason: 'not-taken', message: expect.stringContaining('20000') });
    expect(results).toEqual([{ ok: false, blame: 'message', error }, { ok: true }]);
  });

  it('an answer that MQTT does not know, as Mosquitto’s message_size_limit gives, ends the connection: it may be the message’s', async () => {
    const large = contractMessage({ topic: await observer.topic(), payload: 'x'.repeat(1_001) });
    expect(await failed(large)).toMatchObject({ ok: false, blame: 'transport', suspect: 'message' });
  });

  it('knows to the byte what a Maximum Packet Size takes', async () => {
    const tight = await startNode(['max_packet_size 2000']);
    const listener = await MqttObserver.connect(tight.url);
    const topic = await listener.topic();
    const headers = { ä: 'Zoë', many: ['1', '22'] };
    const options = { mqtt: { messageExpiryInterval: 60, responseTopic: 'r/1', correlationData: 'ü' } };
    const sent = (size: number) => contractMessage({ topic, key: 'k', headers, options, payload: 'x'.repeat(size) });
    const transport = await create({ url: tight.url });
    const sizes = Array.from({ length: 300 }, (_, n) => 1_500 + n);
    const results = await publish(transport, sizes.map(sent));
    const taken = results.filter(({ ok }) => ok).length;
    expect(taken).toBeGreaterThan(0);
    expect(results.slice(taken)).toEqual(
      sizes
        .slice(taken)
        .map(() => expect.objectContaining({ error: expect.objectContaining({ reason: 'not-taken' }) })),
    );
    // What the broker sends has another size: the least that was refused would have ended the connection.
    expect(await publish(transport, [sent(sizes[taken - 1]!)])).toEqual([{ ok: true }]);
    await listener.close();
  });

  it('a broker that keeps no retained messages: refused, and the connection stays', async () => {
    const forgetful = await startNode(['retain_available false']);
    const listener = await MqttObserver.connect(forgetful.url);
    const topic = await listener.topic();
    const transport = await create({ url: forgetful.url });
    const retained = contractMessage({ topic, options: { mqtt: { retain: true } } });
    const results = await publish(transport, [retained, contractMessage({ topic })]);
    expect(results).toMatchObject([{ ok: false, blame: 'message', error: { reason: 'not-taken' } }, { ok: true }]);
    await listener.close();
  });

  it('a broker without QoS 1: says so', async () => {
    const { url } = await startNode(['max_qos 0']);
    expect(await rejection(await create({ url }))).toMatchObject({
      code: 'TRANSPORT_UNAVAILABLE',
      message: expect.stringContaining('max_qos 1'),
    });
  });

  it('a broker of MQTT 3.1.1: says so', async () => {
    // As 3.1.1 tells it to answer to another version.
    const old = createServer((socket) => socket.on('error', () => {}).once('data', () => socket.end('\x20\x02\0\x01')));
    servers.push(old.listen(0, '127.0.0.1'));
    await once(old, 'listening');
    const { port } = old.address() as { port: number };
    const error = await rejection(await create({ url: `mqtt://127.0.0.1:${port}` }));
    expect(error).toMatchObject({ code: 'TRANSPORT_UNAVAILABLE', message: expect.stringContaining('MQTT 5.0') });
  });

  it('a wrong password: nobody is charged, nothing of it is told, and a new one needs no restart', async () => {
    const guarded = await startNode([], { shop: 'right' });
    let password: string = CANARY.clientPassword;
    const url = (): string => `mqtt://shop:${password}@127.0.0.1:${guarded.port}`;
    const transport = await create({ url });
    const error = await rejection(transport);
    expect(error).toMatchObject({ code: 'TRANSPORT_UNAVAILABLE', reason: 'unavailable', reasonCode: 0x87 });
    const [result] = await publish(transport, [contractMessage({ topic: 'orders' })]);
    expect(result).toMatchObject({ ok: false, blame: 'transport' });
    expect(JSON.stringify([result, error, String(error), transport.health!()])).not.toContain(CANARY.clientPassword);
    password = 'right';
    await transport.connect!(AbortSignal.timeout(30_000));
    expect(transport.health!()).toEqual({ up: true, state: 'connected' });
  });
});
