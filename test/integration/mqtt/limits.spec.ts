import { OutboxMessageError, type OutboxTransport } from '../../../lib/index.js';
import { mqtt, type MqttOptions } from '../../../lib/transports/mqtt/index.js';
import { enqueued } from '../../support/enqueue.js';
import { MqttObserver } from '../../support/mqtt.js';
import { contractMessage, publish } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';

const URL_OF_NOBODY = 'mqtt://127.0.0.1:1';
const long = 'x'.repeat(65_536);

describe('what mqtt() refuses', () => {
  it.each<[string, object, Partial<MqttOptions>?]>([
    ['a wildcard +', { topic: 'a/+/b' }],
    ['a wildcard #', { topic: 'a/#' }],
    ['a topic of the broker', { topic: '$SYS/x' }],
    ['a control character in the topic', { topic: 'a\nb' }],
    ['one in the key', { key: 'a\tb' }],
    ['one in a header', { headers: { a: 'line\nline' } }],
    ['a character that is none', { headers: { a: '\ufdd0' } }],
    ['bytes', { headers: { a: Uint8Array.of(1) } }],
    ['bytes among texts', { headers: { a: ['x', Uint8Array.of(1)] } }],
    ['the name of a standard header', { headers: { id: 'mine' } }],
    ['an attribute of CloudEvents', { headers: { source: 'mine' } }, { cloudEvents: { source: '/shop' } }],
    ['too many headers', { headers: { a: long.slice(1), b: 'x' } }],
    ['a payload', { payload: 'x'.repeat(11) }, { maxPayloadBytes: 10 }],
    ['an option that there is not', { options: { mqtt: { qos: 2 } } }],
    ['an option of another type', { options: { mqtt: { retain: 'yes' } } }],
    ['options that are none', { options: { mqtt: [] } }],
    ['an expiry', { options: { mqtt: { messageExpiryInterval: 0.5 } } }],
    ['a topic for answers', { options: { mqtt: { responseTopic: 'a/#' } } }],
    ['correlation data', { options: { mqtt: { correlationData: long } } }],
  ])('at enqueue: %s', (_, input, options = {}) => {
    const refused = enqueued(
      { type: 'x', topic: 't', payload: 'y', ...input },
      mqtt({ url: URL_OF_NOBODY, ...options }),
    );
    expect(refused).toBeInstanceOf(OutboxMessageError);
  });

  it.each<[string, object, RegExp]>([
    ['no url', {}, /url must be mqtt:\/\/host/],
    ['a password in clear', { url: 'mqtt://u:p@ss/w@host' }, /^(?!.*p@ss)mqtt: url must be/],
    ['WebSockets', { url: 'ws://host' }, /url must be mqtt/],
    ['a prefix with a wildcard', { url: URL_OF_NOBODY, topicPrefix: '+/' }, /topicPrefix holds/],
    ['a path', { url: 'mqtt://host/path' }, /without a path/],
    ['no url in a list', { url: [] }, /url must be/],
    ['a client id', { url: URL_OF_NOBODY, clientId: 'shop' }, /clientIdPrefix/],
    ['a certificate without TLS', { url: URL_OF_NOBODY, tls: {} }, /mqtts:\/\//],
    ['headers of bytes', { url: URL_OF_NOBODY, headers: { a: Uint8Array.of(1) } }, /headers: a header holds bytes/],
    ['a keep alive of 0', { url: URL_OF_NOBODY, keepAlive: 0 }, /keepAlive must be a duration from 1s to 18h/],
  ])('as options: %s', (_, options, text) => {
    expect(() => mqtt(options as MqttOptions)).toThrow(
      expect.objectContaining({ message: expect.stringMatching(text) }),
    );
  });
});

describeWith('mqtt', 'what mqtt() carries', () => {
  let observer: MqttObserver;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    observer = await MqttObserver.connect(requiredUrl('mqtt'));
  });
  afterAll(async () => {
    for (const transport of opened) await transport.close?.();
    await observer.close();
  });
  async function create(options: Partial<MqttOptions> = {}): Promise<OutboxTransport> {
    const transport = await mqtt({ url: requiredUrl('mqtt'), ...options }).create();
    opened.push(transport);
    return transport;
  }

  it('topic with its prefix, headers, key, options', async () => {
    const topic = await observer.topic();
    const transport = await create({ topicPrefix: `${observer.prefix}/`, headers: { app: 'shop' } });
    const options = { mqtt: { messageExpiryInterval: 60, responseTopic: 'answers/1', correlationData: 'c1' } };
    const message = contractMessage({
      topic: topic.slice(observer.prefix.length + 1),
      key: 'Größe/1',
      headers: { many: ['a', 'b'], ключ: '' },
      options,
    });
    expect(await publish(transport, [message])).toEqual([{ ok: true }]);
    const [found] = await observer.received(topic, 1);
    expect(found!.headers).toEqual({
      app: 'shop',
      many: ['a', 'b'],
      ключ: '',
      id: message.id,
      key: 'Größe/1',
      type: 'contract.tested',
      version: '1',
      time: message.createdAt.toISOString(),
    });
    expect(found!.properties).toMatchObject({
      contentType: 'application/json',
      responseTopic: 'answers/1',
      correlationData: Buffer.from('c1'),
    });
    expect(found!.properties.messageExpiryInterval).toBeGreaterThan(0);
  });

  it('CloudEvents', async () => {
    const topic = await observer.topic();
    const message = contractMessage({ topic, key: 'k' });
    await publish(await create({ cloudEvents: { source: '/shop' } }), [message]);
    const [found] = await observer.received(topic, 1);
    expect(found!.headers).toMatchObject({ specversion: '1.0', id: message.id, source: '/shop', subject: 'k' });
  });

  // The broker would end the connection over them, and take the neighbours down.
  it('rows of other programs that it cannot carry are dead at once, and alone', async () => {
    const topic = await observer.topic();
    const bad = [
      contractMessage({ topic: 'a/#' }),
      contractMessage({ topic, key: 'a\0' }),
      contractMessage({ topic, headers: { a: 'line\nline' } }),
      contractMessage({ topic, headers: { a: Uint8Array.of(1) } }),
      contractMessage({ topic, options: { mqtt: { messageExpiryInterval: -1 } } }),
      contractMessage({ topic, type: '\ufffe' }),
    ];
    const results = await publish(await create(), [...bad, contractMessage({ topic })]);
    const refused = { ok: false, blame: 'message', final: true, error: expect.any(OutboxMessageError) };
    expect(results).toEqual([...bad.map(() => refused), { ok: true }]);
  });
});
