import {
  blameFor,
  RabbitMqPublishError,
  RoutingKeyError,
  type RabbitMqTrouble,
} from '../../lib/publish/transports/rabbitmq-blame.js';

const coded = (code: number) => Object.assign(new Error(`closed: ${code}`), { code });

const TABLE: readonly (readonly [
  what: string,
  trouble: RabbitMqTrouble,
  blame: string,
  code: string,
  final: boolean,
])[] = [
  [
    'unroutable',
    { kind: 'unroutable', exchange: 'e', routingKey: 'r', replyCode: 312 },
    'message',
    'PUBLISH_REJECTED',
    false,
  ],
  ['nack', { kind: 'nacked' }, 'message', 'PUBLISH_REJECTED', false],
  [
    'header that AMQP cannot carry',
    { kind: 'not-encodable', error: new TypeError('x') },
    'message',
    'PUBLISH_REJECTED',
    true,
  ],
  [
    'routingKey() threw',
    { kind: 'not-encodable', error: new RoutingKeyError('x') },
    'message',
    'PUBLISH_REJECTED',
    false,
  ],
  ['behind a failed one', { kind: 'overtaking' }, 'collateral', 'PUBLISH_REJECTED', false],
  [
    '404 with neighbours',
    { kind: 'channel-closed', error: coded(404), alone: false },
    'collateral',
    'PUBLISH_REJECTED',
    false,
  ],
  ['404 alone', { kind: 'channel-closed', error: coded(404), alone: true }, 'message', 'PUBLISH_REJECTED', false],
  ['406 alone', { kind: 'channel-closed', error: coded(406), alone: true }, 'message', 'PUBLISH_REJECTED', false],
  [
    '541 with neighbours',
    { kind: 'connection-closed', error: coded(541), alone: false },
    'collateral',
    'PUBLISH_REJECTED',
    false,
  ],
  ['501 alone', { kind: 'connection-closed', error: coded(501), alone: true }, 'message', 'PUBLISH_REJECTED', false],
  [
    '320, forced, alone',
    { kind: 'connection-closed', error: coded(320), alone: true },
    'transport',
    'TRANSPORT_UNAVAILABLE',
    false,
  ],
  [
    'broken wire, alone',
    { kind: 'connection-closed', error: new Error('ECONNRESET'), alone: true },
    'transport',
    'TRANSPORT_UNAVAILABLE',
    false,
  ],
  ['no confirm in time', { kind: 'not-confirmed', error: undefined }, 'transport', 'PUBLISH_TIMEOUT', false],
  ['blocked', { kind: 'blocked', reason: 'low on memory' }, 'transport', 'TRANSPORT_UNAVAILABLE', false],
  [
    'unavailable',
    { kind: 'unavailable', error: new Error('ECONNREFUSED') },
    'transport',
    'TRANSPORT_UNAVAILABLE',
    false,
  ],
];

describe('blame for what RabbitMQ does', () => {
  it.each(TABLE)('%s', (_, trouble, blame, code, final) => {
    const failure = blameFor(trouble);
    expect(failure).toMatchObject({ ok: false, blame, error: { code, reason: trouble.kind } });
    expect(failure.final ?? false).toBe(final);
  });

  it('lets a classifier see the reply code', () => {
    const { error } = blameFor({ kind: 'channel-closed', error: coded(404), alone: true });
    expect(error).toBeInstanceOf(RabbitMqPublishError);
    expect((error as RabbitMqPublishError).replyCode).toBe(404);
  });

  it('shows nothing of a broker error in its text but the code', () => {
    const secret = Object.assign(new Error('header x=secret'), { code: 406 });
    for (const kind of ['channel-closed', 'connection-closed'] as const) {
      expect(String(blameFor({ kind, error: secret, alone: true }).error)).not.toContain('secret');
    }
  });
});
