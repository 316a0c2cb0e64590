import {
  KafkaJSConnectionError,
  KafkaJSNonRetriableError,
  KafkaJSNumberOfRetriesExceeded,
  KafkaJSProtocolError,
  KafkaJSRequestTimeoutError,
} from 'kafkajs';
import { blameFor, describe as describeBlame } from '../../../../lib/transports/kafkajs/blame.js';
import { KAFKA_FAILURES } from '../../../../lib/transports/kafkajs/errors.js';

/** As kafkajs makes and wraps them; its types declare other constructors than its code has. */
type Make = new (error: unknown, details?: object) => Error;
const protocol = (type: string, retriable = false): Error =>
  new (KafkaJSProtocolError as unknown as Make)({ message: type, type, code: 1, retriable });
const wrapped = (cause: Error): Error => new (KafkaJSNonRetriableError as unknown as Make)(cause, { cause });
const exceeded = (cause: Error): Error =>
  new (KafkaJSNumberOfRetriesExceeded as unknown as Make)(cause, { retryCount: 5, retryTime: 1 });
const connection = new (KafkaJSConnectionError as unknown as Make)('refused', { broker: 'b:1', code: 'ECONNREFUSED' });

/** kafkajs' own lists, which it does not export. */
const { errorCodes } = jest.requireActual<{ errorCodes: { type: string; code: number; retriable: boolean }[] }>(
  'kafkajs/src/protocol/error',
);
const classes = jest.requireActual<Record<string, unknown>>('kafkajs/src/errors');

describe('Kafka blame', () => {
  const says = (type: string, topics: readonly string[]): string => {
    const error = protocol(type);
    return describeBlame(blameFor(error, topics.length, topics.length), error, topics).message;
  };
  it.each([
    ['TOPIC_AUTHORIZATION_FAILED', ['orders'], "'orders'"],
    ['MESSAGE_TOO_LARGE', ['orders'], "'orders'"],
    ['MESSAGE_TOO_LARGE', ['a', 'b', 'c', 'd', 'e'], "'a', 'b', 'c' and 2 more"],
    ['NOT_ENOUGH_REPLICAS', ['orders'], "'orders'"],
    ['UNKNOWN_TOPIC_OR_PARTITION', ['orders'], "'orders'"],
  ])('N8: %s of %j names its topics', (type, topics, names) => {
    expect(says(type, topics)).toContain(names);
  });
  it('N8: what is away for all names none', () => {
    expect(says('CLUSTER_AUTHORIZATION_FAILED', ['orders'])).not.toContain('orders');
  });

  it('C10: of kafkajs’ codes and classes these alone are more than the transport’s fault', () => {
    const names = Object.values(classes)
      .filter(
        (one): one is new (...args: unknown[]) => Error => typeof one === 'function' && 'captureStackTrace' in one,
      )
      .map((Class) => new Class({ message: 'm', partitions: [] }, { topic: 't', partitions: [] }).name);
    expect(names.filter((name) => KAFKA_FAILURES.has(name))).toEqual(['KafkaJSConnectionClosedError']);
    // Another number: this kafkajs knows more of them, and somebody has to say whose fault they are.
    expect([errorCodes.length, names.length]).toEqual([89, 31]);
    const charged = errorCodes
      .map(({ type }) => type)
      .filter((type) => (KAFKA_FAILURES.get(type)?.fault ?? 'transport') !== 'transport');
    expect(charged).toEqual([
      'CORRUPT_MESSAGE',
      'UNKNOWN_TOPIC_OR_PARTITION',
      'MESSAGE_TOO_LARGE',
      'INVALID_TOPIC_EXCEPTION',
      'RECORD_LIST_TOO_LARGE',
      'TOPIC_AUTHORIZATION_FAILED',
      'INVALID_TIMESTAMP',
      'UNSUPPORTED_FOR_MESSAGE_FORMAT',
      'POLICY_VIOLATION',
      'INVALID_RECORD',
    ]);
  });

  it.each([
    // error, alone, alone final, one of many in one topic, one of many in many topics
    ['MESSAGE_TOO_LARGE', 'message', true, 'collateral', 'collateral'],
    ['RECORD_LIST_TOO_LARGE', 'message', true, 'collateral', 'collateral'],
    ['INVALID_RECORD', 'message', true, 'collateral', 'collateral'],
    ['INVALID_TIMESTAMP', 'message', false, 'collateral', 'collateral'],
    ['CORRUPT_MESSAGE', 'message', false, 'collateral', 'collateral'],
    ['POLICY_VIOLATION', 'message', false, 'collateral', 'collateral'],
    ['INVALID_TOPIC_EXCEPTION', 'message', true, 'message', 'collateral'],
    ['UNKNOWN_TOPIC_OR_PARTITION', 'message', false, 'message', 'collateral'],
    ['TOPIC_AUTHORIZATION_FAILED', 'message', false, 'message', 'collateral'],
    ['UNSUPPORTED_FOR_MESSAGE_FORMAT', 'message', false, 'message', 'collateral'],
    ['UNKNOWN', 'transport', false, 'transport', 'transport'],
    ['SOMETHING_NEW', 'transport', false, 'transport', 'transport'],
  ] as const)('%s', (type, alone, final, oneTopic, manyTopics) => {
    for (const error of [protocol(type), wrapped(protocol(type)), exceeded(protocol(type, true))]) {
      expect(blameFor(error, 1, 1)).toMatchObject({ blame: alone, final, name: type });
      expect(blameFor(error, 3, 1).blame).toBe(oneTopic);
      expect(blameFor(error, 3, 2).blame).toBe(manyTopics);
      // Many: the message is not proved guilty, unless the topic is.
      if (oneTopic === 'collateral') expect(blameFor(error, 3, 1).final).toBe(false);
    }
  });

  it('tells one partition that is away, and what may be the message’s doing, from the whole', () => {
    const suspect = (error: unknown): string | undefined => blameFor(error, 1, 1).suspect;
    expect(suspect(wrapped(protocol('NOT_ENOUGH_REPLICAS')))).toBe('destination');
    expect(suspect(wrapped(protocol('LEADER_NOT_AVAILABLE')))).toBe('destination');
    expect(suspect(protocol('UNKNOWN'))).toBe('message');
    expect(suspect(Object.assign(new Error('read'), { code: 'ECONNRESET' }))).toBe('message');
    expect(suspect(protocol('INVALID_PRODUCER_EPOCH'))).toBeUndefined();
    expect(suspect(connection)).toBeUndefined();
    expect(blameFor(protocol('UNKNOWN'), 0, 1).suspect).toBeUndefined(); // nothing was sent yet
  });

  it('sees through kafkajs’ wrapping of a refused connection', () => {
    for (const error of [connection, wrapped(connection), exceeded(connection), wrapped(exceeded(connection))]) {
      expect(blameFor(error, 1, 1)).toEqual({ blame: 'transport', final: false, name: 'ECONNREFUSED' });
    }
  });

  it('charges nobody before there is a connection: a token provider may throw anything', () => {
    for (const error of [new TypeError('x'), protocol('TOPIC_AUTHORIZATION_FAILED'), new RangeError('x')]) {
      expect(blameFor(error, 0, 1)).toMatchObject({ blame: 'transport', final: false });
    }
  });

  it('charges nobody after the deadline, whatever was thrown: what became of the request is not known', () => {
    for (const error of [protocol('MESSAGE_TOO_LARGE'), new TypeError('x'), undefined])
      expect(blameFor(error, 1, 1, true)).toMatchObject({ blame: 'transport', final: false });
  });

  it('charges the record for what its own encoding throws, with a code or without', () => {
    const coded = Object.assign(new TypeError('x'), { code: 'ERR_INVALID_ARG_TYPE' });
    expect(blameFor(coded, 1, 1)).toMatchObject({ blame: 'message', final: false });
    // What fetch() says of a host that is away is a TypeError, too.
    expect(blameFor(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }), 1, 1).blame).toBe('transport');
    expect(blameFor(new TypeError('x'), 1, 1)).toMatchObject({ blame: 'message', final: false });
    expect(blameFor(new TypeError('x'), 2, 1).blame).toBe('collateral');
  });

  it.each([undefined, null, 'text', {}, Object.create(null), new (KafkaJSRequestTimeoutError as unknown as Make)('t')])(
    'blames the transport for what it does not know: %p',
    (error) => expect(blameFor(error, 1, 1)).toMatchObject({ blame: 'transport', final: false }),
  );

  it('ends on a circle of causes', () => {
    const error: { cause?: unknown } = {};
    error.cause = error;
    expect(blameFor(error, 1, 1).blame).toBe('transport');
  });
});
