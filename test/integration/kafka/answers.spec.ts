import { inspect } from 'node:util';
import type { OutboxTransport, PublishResult } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { canariesIn, CANARY, SECRETS } from '../../security/canaries.js';
import { publish } from '../../support/publish.js';
import { kafkaThrough, messages, TestTopics } from '../../support/kafka.js';
import { KafkaRefusals } from '../../support/kafka-refusals.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

/** kafkajs' own list, which it does not export. */
const { errorCodes } = jest.requireActual<{ errorCodes: { type: string; code: number }[] }>(
  'kafkajs/src/protocol/error',
);
/** Newer than kafkajs: PRODUCER_FENCED. */
const UNKNOWN = { type: 'KAFKAJS_UNKNOWN_ERROR_CODE', code: 90 };
const RECORD = { together: 'collateral', alone: 'message', final: true };
const RECORD_NOW = { together: 'collateral', alone: 'message', final: undefined };
const NAME = { together: 'message', alone: 'message', final: true };
const TOPIC = { together: 'message', alone: 'message', final: undefined };
const NOBODY = { together: 'transport', alone: 'transport', final: undefined };
/** Who is charged, of three messages to one topic and of one; every other code is nobody's fault. */
const CHARGED: Readonly<Record<string, typeof RECORD | typeof NOBODY>> = {
  MESSAGE_TOO_LARGE: RECORD,
  RECORD_LIST_TOO_LARGE: RECORD,
  INVALID_RECORD: RECORD,
  INVALID_TIMESTAMP: RECORD_NOW,
  CORRUPT_MESSAGE: RECORD_NOW,
  POLICY_VIOLATION: RECORD_NOW,
  INVALID_TOPIC_EXCEPTION: NAME,
  UNKNOWN_TOPIC_OR_PARTITION: NOBODY,
  TOPIC_AUTHORIZATION_FAILED: NOBODY,
  UNSUPPORTED_FOR_MESSAGE_FORMAT: TOPIC,
};

/** The broker refuses the request and stores nothing; which code it says is changed on the way. */
describeWith('kafka', 'every code, as Kafka’s answer to a produce request', () => {
  const topics = new TestTopics();
  const refusals = new KafkaRefusals();
  let topic: string;
  let proxy: TcpProxy;
  /** One for all codes: none of them is the end of it. */
  let transport: OutboxTransport;
  let stored = 0;
  beforeAll(async () => {
    await topics.start();
    topic = await topics.create();
    proxy = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
    proxy.intercept = () => refusals.connection();
    const retry = { initialRetryTime: 1, maxRetryTime: 1, retries: 1 };
    transport = await kafka({ client: kafkaThrough(proxy), producers: 1, producer: { retry } }).create();
  });
  afterEach(() => {
    refusals.code = undefined;
    refusals.left = Infinity;
    refusals.corrupting = false;
  });
  afterAll(async () => {
    await transport?.close!();
    await proxy?.close();
    await topics.stop();
  });

  const refused = async (count: number) => {
    const before = refusals.refused;
    const secrets = { payload: SECRETS.payload, headers: { h: CANARY.header } };
    const results = await publish(
      transport,
      messages(topic, count, () => secrets),
    );
    expect(canariesIn(inspect(results, { depth: 12 }))).toEqual([]);
    expect(refusals.refused).toBeGreaterThan(before);
    return results;
  };
  const failures = (count: number, blame: string, code: string, final?: boolean) =>
    Array.from({ length: count }, () => [blame, expect.stringContaining(`(${code})`), final]);
  const told = (results: readonly PublishResult[]) =>
    results.map((result) => !result.ok && [result.blame, (result.error as Error).message, result.final]);
  /** Nothing of what was refused is there, and the next request gets through. */
  const expectOn = async () => {
    expect(await publish(transport, messages(topic, 2))).toEqual([{ ok: true }, { ok: true }]);
    expect(await topics.total(topic)).toBe((stored += 2));
  };

  it.each([...errorCodes, UNKNOWN])('C10: $code, $type', async ({ code, type }) => {
    const { together, alone, final } = CHARGED[type] ?? NOBODY;
    refusals.code = code;
    expect(told(await refused(3))).toEqual(failures(3, together, type, together === 'message' ? final : undefined));
    expect(told(await refused(1))).toEqual(failures(1, alone, type, final));
    refusals.code = undefined;
    await expectOn();
  });

  it('N9: an idle producer that a Kafka before 2.5 has forgotten: another one is opened, and nobody hears of it', async () => {
    await expectOn();
    refusals.code = errorCodes.find(({ type }) => type === 'UNKNOWN_PRODUCER_ID')!.code;
    refusals.left = 1;
    expect(await refused(3)).toEqual([{ ok: true }, { ok: true }, { ok: true }]);
    stored += 3;
    await expectOn();
  });

  it('C3, C10: records that changed on the way: the broker’s own CORRUPT_MESSAGE', async () => {
    refusals.corrupting = true;
    expect(told(await refused(3))).toEqual(failures(3, 'collateral', 'CORRUPT_MESSAGE'));
    expect(told(await refused(1))).toEqual(failures(1, 'message', 'CORRUPT_MESSAGE'));
    refusals.corrupting = false;
    await expectOn();
  });
});
