import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type RabbitMqTrouble, RabbitMqPublishError } from 'nestjs-outbox/rabbitmq';
import { blameFor, RoutingKeyError } from '../../../../lib/transports/amqp/blame.js';
import { closeReason, REPLY_CODES } from '../../../../lib/transports/amqp/errors.js';

/** amqplib's sources, for its lists, which it does not export. */
const amqplib = join(dirname(require.resolve('amqplib')), 'lib');
const { constants } = jest.requireActual<{ constants: Record<string, number> }>(join(amqplib, 'defs.js'));

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
    { kind: 'unroutable', exchange: 'e', routingKey: 'r', replyCode: 312, destination: 'd' },
    'transport',
    'PUBLISH_REJECTED',
    false,
  ],
  ['nack', { kind: 'nacked', destination: 'queue "q"' }, 'transport', 'PUBLISH_REJECTED', false],
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
    '404 alone, of a destination',
    { kind: 'channel-closed', error: coded(404), alone: true, destination: 'd' },
    'transport',
    'PUBLISH_REJECTED',
    false,
  ],
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

/** Code; who is charged when the channel was closed: with neighbours, alone; and the same of the connection. */
const CODES: Record<number, readonly [string, string, string, string]> = {
  200: ['transport', 'transport', 'transport', 'transport'],
  311: ['collateral', 'message', 'collateral', 'message'],
  312: ['collateral', 'message', 'collateral', 'message'],
  313: ['collateral', 'message', 'collateral', 'message'],
  320: ['transport', 'transport', 'transport', 'transport'],
  402: ['transport', 'transport', 'transport', 'transport'],
  403: ['collateral', 'message', 'transport', 'transport'],
  404: ['collateral', 'message', 'transport', 'transport'],
  405: ['collateral', 'transport', 'transport', 'transport'],
  406: ['collateral', 'message', 'transport', 'transport'],
  501: ['collateral', 'message', 'collateral', 'message'],
  502: ['collateral', 'message', 'collateral', 'message'],
  503: ['collateral', 'transport', 'collateral', 'transport'],
  504: ['collateral', 'transport', 'collateral', 'transport'],
  505: ['collateral', 'transport', 'collateral', 'transport'],
  506: ['transport', 'transport', 'transport', 'transport'],
  530: ['transport', 'transport', 'transport', 'transport'],
  540: ['collateral', 'transport', 'collateral', 'transport'],
  541: ['collateral', 'transport', 'collateral', 'transport'],
};

describe('the codes of AMQP', () => {
  it.each(Object.entries(CODES))('%s', (code, expected) => {
    const error = coded(Number(code));
    const blames = (['channel-closed', 'connection-closed'] as const).flatMap((kind) =>
      [false, true].map((alone) => blameFor({ kind, error, alone }).blame),
    );
    expect(blames).toEqual(expected);
    expect(closeReason(error).name).toContain(code);
  });

  it('are those that amqplib knows, each with its name', () => {
    const { FRAME_END: _, ...replies } = Object.fromEntries(Object.entries(constants).filter(([, n]) => n >= 200));
    delete replies['FRAME_MIN_SIZE'];
    expect(
      Object.entries(replies)
        .map(([name, code]) => `${code} ${name}`)
        .sort(),
    ).toEqual([...REPLY_CODES.values()].map(({ name }) => name).sort());
    expect(Object.keys(CODES).map(Number)).toEqual([...REPLY_CODES.keys()].sort((a, b) => a - b));
  });

  it('that nobody knows yet are the transport’s, and say their number', () => {
    expect(blameFor({ kind: 'connection-closed', error: coded(599), alone: true })).toMatchObject({
      blame: 'transport',
      error: { message: expect.stringContaining('599'), replyCode: 599 },
    });
  });
});

describe('what amqplib throws', () => {
  /** Of consumers, of topologies and of amqplib's own encoding, which is `not-encodable`. */
  const ELSEWHERE =
    /^(Unexpected response to BasicGet|Unknown consumer|Flow not|message nacked|Missing value|Cannot send content)/;

  it('has a name, each text of its sources', () => {
    const sources = readdirSync(amqplib).filter((file) =>
      /^(connect|connection|channel|channel_model)\.js$/.test(file),
    );
    const texts = sources.flatMap((file) =>
      [...readFileSync(join(amqplib, file), 'utf8').matchAll(/new Error\(\s*(?:fmt\(\s*)?(['"`])(.+?)\1/g)].map(
        (m) => m[2]!,
      ),
    );
    expect(texts.length).toBeGreaterThan(15);
    const unnamed = texts.filter((text) => !ELSEWHERE.test(text) && closeReason(new Error(text)).name === 'UNKNOWN');
    expect(unnamed).toEqual([]);
  });

  it.each([
    [Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    [Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }), 'ECONNRESET'],
    [Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }), 'EPIPE'],
    [Object.assign(new Error('x'), { code: 'ETIMEDOUT' }), 'ETIMEDOUT'],
    [Object.assign(new Error('x'), { code: 'EHOSTUNREACH' }), 'EHOSTUNREACH'],
    [Object.assign(new Error('x'), { code: 'ENOTFOUND' }), 'ENOTFOUND'],
    [Object.assign(new Error('x'), { code: 'CERT_HAS_EXPIRED' }), 'CERT_HAS_EXPIRED'],
    [Object.assign(new Error('x'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }), 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    [Object.assign(new Error('x'), { code: 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA' }), 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA'],
    [Object.assign(new Error('x'), { code: 'ERR_OSSL_BAD_DECRYPT' }), 'ERR_OSSL_BAD_DECRYPT'],
    [new Error('Heartbeat timeout'), 'HEARTBEAT_TIMEOUT'],
    [Object.assign(new Error('Channel closed'), { name: 'IllegalOperationError' }), 'IllegalOperationError'],
    [new Error('Handshake terminated by server: 403 (ACCESS-REFUSED) with message "secret"'), '403 ACCESS_REFUSED'],
    [new Error('Handshake terminated by server: 530 (NOT-ALLOWED) with message "vhost"'), '530 NOT_ALLOWED'],
    [AbortSignal.abort().reason, 'AbortError'],
    [new Error('of tomorrow: secret'), 'UNKNOWN'],
    [undefined, 'UNKNOWN'],
    ['text', 'UNKNOWN'],
  ])('%s is the transport’s', (error, name) => {
    for (const kind of ['unavailable', 'connection-closed'] as const) {
      const failure = blameFor({ kind, error, alone: true });
      expect(failure.blame).toBe('transport');
      expect(String(failure.error)).toContain(name);
      expect(String(failure.error)).not.toContain('secret');
    }
  });
});

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
