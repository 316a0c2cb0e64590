import { brokerAddress } from '../../../lib/transports/broker-address.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';

describe('Y4: where a broker is, for the log', () => {
  it.each([
    [['amqp://guest:guest@127.0.0.1:5672/shop?heartbeat=5'], '127.0.0.1:5672'],
    [['amqps://u%40x:p%2Fw@rabbit.example'], 'rabbit.example'],
    [['amqp://u:p@[::1]:5672'], '[::1]:5672'],
    [[{ hostname: 'rabbit', port: 5673, username: 'u', password: 'swordfish' }], 'rabbit:5673'],
    [[{ hostname: 'rabbit' }, () => 'amqp://b'], 'rabbit'],
    [['a:9092', 'b:9092'], 'a:9092, b:9092'],
    [['a:1', 'b:1', 'c:1', 'd:1', 'e:1'], 'a:1, b:1, c:1 and 2 more'],
  ])('of %j is %s', (given, expected) => expect(brokerAddress(given)).toBe(expected));

  it.each([
    [['amqp://user:sword/fish@host']], // the password ends the host too early for a parser of URLs
    [['amqp://sword/fish:x@host']],
    [['amqp://sword#fish@host']],
    [['amqp://sword?fish@host']],
    [['user:swordfish@host:9092']],
    [['sword fish']],
    [[{ hostname: 'user:swordfish@host' }]],
    [[() => 'amqp://a']],
    [[undefined]],
    [[{ password: 'swordfish' }]],
    [[null, 7, {}]],
    [[]],
  ])('of %j is not shown', (given) => expect(brokerAddress(given)).toBeUndefined());

  it('is in the definition of a transport, where its options say it', () => {
    expect([
      rabbitmq({ url: 'amqp://u:p@rabbit' }).broker,
      rabbitmq({ urls: ['amqp://a', 'amqp://b:1'] }).broker,
      rabbitmq({ url: () => 'amqp://a' }).broker,
      kafka({ client: { clientId: 'x', brokers: ['a:1', 'b:2'] } }).broker,
      kafka({ client: 'TOKEN' }).broker,
    ]).toEqual(['rabbit', 'a, b:1', undefined, 'a:1, b:2', undefined]);
  });
});
