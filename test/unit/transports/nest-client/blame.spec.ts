import 'reflect-metadata';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  blameForClient,
  blameForKafkaAnswer,
  blameForLostConnection,
  isNamed,
} from '../../../../lib/transports/nest-client/blame.js';
import { RmqLink } from '../../../../lib/transports/nest-client/rmq.js';
import type { ClientKind } from '../../../../lib/transports/nest-client/kind.js';

const coded = (code: string | number, text = 'x') => Object.assign(new Error(text), { code });
const KINDS: readonly ClientKind[] = ['kafka', 'rmq', 'redis', 'nats', 'mqtt', 'tcp', 'grpc', 'custom'];
class InvalidMessageException extends Error {}
class MaxRetriesPerRequestError extends Error {}

describe('blame for what Nest’s clients throw', () => {
  it.each([
    ['rmq', new Error('message nacked'), 'message'],
    ['rmq', new TypeError('content is not a buffer'), 'message'],
    ['rmq', new Error('Channel closed'), 'transport'],
    ['rmq', new Error('timeout'), 'transport'],
    ['rmq', new Error('Not connected.'), 'transport'],
    ['rmq', 'Error: connect ECONNREFUSED', 'transport'],
    ['redis', new Error('NOPERM this user has no permissions to access one of the channels'), 'message'],
    ['redis', new Error('OOM command not allowed when used memory > maxmemory'), 'transport'],
    ['redis', new Error('READONLY You can’t write against a read only replica.'), 'transport'],
    ['redis', new Error('LOADING Redis is loading the dataset in memory'), 'transport'],
    ['redis', new Error('ERR max number of clients reached'), 'transport'],
    ['redis', new Error('NOAUTH Authentication required.'), 'transport'],
    ['redis', new Error('Connection is closed.'), 'transport'],
    ['redis', new MaxRetriesPerRequestError('Reached the max retries per request limit'), 'transport'],
    ['redis', new TypeError('Cannot read properties of null (reading "publish")'), 'transport'],
    ['nats', coded('BAD_SUBJECT'), 'message'],
    ['nats', coded('MAX_PAYLOAD_EXCEEDED'), 'message'],
    ['nats', coded('PERMISSIONS_VIOLATION'), 'message'],
    ['nats', coded('CONNECTION_CLOSED'), 'transport'],
    ['nats', coded('AUTHORIZATION_VIOLATION'), 'transport'],
    ['nats', coded('503'), 'transport'],
    ['mqtt', coded(135, 'Not authorized'), 'message'],
    ['mqtt', coded(149, 'Packet too large'), 'message'],
    ['mqtt', coded(151, 'Quota exceeded'), 'transport'],
    ['mqtt', new Error('client disconnecting'), 'transport'],
    ['tcp', new Error('Connection closed'), 'transport'],
    ['kafka', coded('ECONNREFUSED'), 'transport'],
  ] as const)('%s: %s is the %s’s', (kind, error, blame) => {
    expect(blameForClient(kind, error)).toMatchObject({ ok: false, blame });
    if (kind !== 'kafka') expect(isNamed(kind, error)).toBe(true);
  });

  it.each(KINDS)('%s: a network error is the transport’s, a value that cannot be sent the message’s', (kind) => {
    for (const code of ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENOTFOUND', 'EPROTO']) {
      expect(blameForClient(kind, coded(code)).blame).toBe('transport');
      expect(blameForClient(kind, new TypeError('fetch failed', { cause: coded(code) })).blame).toBe('transport');
    }
    expect(blameForClient(kind, new InvalidMessageException('x')).blame).toBe('message');
    const unencodable = blameForClient(kind, new TypeError('Do not know how to serialize a BigInt'));
    expect(unencodable.blame).toBe('message');
    // A serializer or record function of the application may have made it.
    expect(unencodable.final ?? false).toBe(false);
    const unconnected = blameForClient(kind, new TypeError('x'), false);
    expect(unconnected.blame).toBe('transport');
    expect(unconnected).not.toHaveProperty('suspect');
    for (const unknown of [undefined, null, {}, 'text', new Error('of tomorrow')])
      expect(blameForClient(kind, unknown).blame).toBe('transport');
  });

  it('C16: rmq: of a broker that was away until a moment ago a nack is not believed', () => {
    const nacked = new Error('message nacked');
    expect(blameForClient('rmq', nacked, true, false)).toMatchObject({ blame: 'message' });
    expect(blameForClient('rmq', nacked, true, true)).toMatchObject({
      blame: 'transport',
      error: { code: 'TRANSPORT_UNAVAILABLE', reason: 'nacked' },
    });
    // What never left this process has nothing to do with the broker.
    expect(blameForClient('rmq', new TypeError('content is not a buffer'), true, true).blame).toBe('message');
  });

  it('C3: rmq: of a lost connection only who was on it when it broke is a suspect, and nobody is charged', () => {
    const lost = [
      coded('ECONNRESET'),
      coded('EPIPE'),
      new Error('Unexpected close'),
      coded(501),
      coded(541),
      new RangeError('value out of range'),
    ];
    for (const reason of lost)
      expect(blameForLostConnection(reason)).toMatchObject({ blame: 'transport', suspect: 'message' });
    const ended = [
      coded(320, 'Connection closed: 320 (CONNECTION-FORCED) with message "shutdown"'),
      coded(530, 'Connection closed: 530 (NOT-ALLOWED)'),
      new Error('Heartbeat timeout'),
      new Error('of tomorrow'),
    ];
    for (const reason of ended) expect(blameForLostConnection(reason)).not.toHaveProperty('suspect');
  });

  it('R3: rmq: a right that is refused is of the exchange, to which all of a client goes', () => {
    const refused = coded(
      403,
      "Channel closed by server: 403 (ACCESS-REFUSED) with message \"ACCESS_REFUSED - write access to exchange 'shop' in vhost '/' refused for user 'u'\"",
    );
    const client = { options: { exchange: 'shop', wildcards: true } } as never;
    const lost = new RmqLink(client).lost(refused, 'orders');
    expect(lost).toMatchObject({ blame: 'transport', suspect: 'destination' });
    expect(lost).toHaveProperty('destination', 'exchange "shop", routing key "orders"');
    expect(lost).not.toHaveProperty('certain');
    const ofQueue = coded(
      403,
      'Channel closed by server: 403 (ACCESS-REFUSED) with message "ACCESS_REFUSED - configure access to queue \'q\' …"',
    );
    expect(new RmqLink(client).lost(ofQueue, 'orders')).not.toHaveProperty('destination');
  });

  it('C8: kafka: only an answer of one partition that took the record is one', () => {
    expect(blameForKafkaAnswer([{ topicName: 't', partition: 0, errorCode: 0 }])).toBeUndefined();
    for (const answer of [undefined, [], [{ errorCode: 3 }], [{ errorCode: 0 }, { errorCode: 0 }]])
      expect(blameForKafkaAnswer(answer)).toMatchObject({ blame: 'message', error: { code: 'PUBLISH_REJECTED' } });
  });

  it('Nest’s own exceptions are all named', () => {
    const folder = join(dirname(require.resolve('@nestjs/microservices')), 'errors');
    const files = readdirSync(folder).filter((file) => file.endsWith('.js') && !/grpc|proto/.test(file));
    const classes: string[] = [];
    for (const file of files)
      classes.push(
        ...Object.keys(jest.requireActual<object>(join(folder, file))).filter((name) => name.endsWith('Exception')),
      );
    expect(classes.length).toBeGreaterThanOrEqual(10);
    expect(classes.filter((name) => !isNamed('tcp', new (namedClass(name))()))).toEqual([]);
  });
});

function namedClass(name: string): new () => Error {
  return { [name]: class extends Error {} }[name] as new () => Error;
}
