import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SQSClient } from '@aws-sdk/client-sqs';
import { OutboxConfigurationError, type OutboxTransport } from '../../../lib/index.js';
import { sqs, type SqsClientConfig } from '../../../lib/transports/sqs/index.js';
import { createEnvelope } from '../../../lib/transports/envelope.js';
import type { Send } from '../../../lib/transports/session/session.js';
import { SqsRequests } from '../../../lib/transports/sqs/client.js';
import { resolveSqsOptions } from '../../../lib/transports/sqs/options.js';
import { Queues } from '../../../lib/transports/sqs/queues.js';
import { SqsSession } from '../../../lib/transports/sqs/session.js';
import { contractMessage, publish } from '../../support/publish.js';
import { configFor } from '../../support/sqs.js';
import { until } from '../../support/until.js';

interface Answer {
  readonly status?: number;
  readonly code?: string;
  readonly body?: unknown;
}
/** What AWS says and ElasticMQ never does: a server that is made up, in the form of SQS's protocol. */
describe('answers of SQS', () => {
  let server: Server;
  let asked: string[];
  let answers: Record<string, Answer>;
  let connections: number;
  let transport: OutboxTransport | undefined;
  const URL_OF_QUEUE = { body: { QueueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/orders' } };

  beforeEach(async () => {
    [asked, answers, connections] = [[], { GetQueueUrl: URL_OF_QUEUE }, 0];
    server = createServer((request, response) => {
      const action = String(request.headers['x-amz-target']).split('.')[1]!;
      asked.push(action);
      const { status = 200, code, body } = answers[action]!;
      request.resume().once('end', () => {
        if (status === 0) return response.destroy();
        response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' });
        const error = code === undefined ? {} : { __type: `com.amazonaws.sqs#${code}`, message: 'secret payload' };
        response.end(typeof body === 'string' ? body : JSON.stringify(body ?? error));
      });
    });
    server.on('connection', () => (connections += 1));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(async () => {
    await transport?.close?.();
    server.closeAllConnections();
    server.close();
  });
  const config = (): SqsClientConfig => configFor(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  async function open(client: object = config()): Promise<OutboxTransport> {
    transport = (await sqs({ client: client as never }).create()) as OutboxTransport;
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  }
  const batch = (length: number) =>
    Array.from({ length }, (_, n) => contractMessage({ topic: 'orders', key: `k${n}`, payload: 'secret payload' }));
  const OURS = { blame: 'transport', suspect: 'destination', destination: 'queue "orders"' };

  it.each([
    [400, 'AWS.SimpleQueueService.NonExistentQueue', { ...OURS, certain: true }],
    [403, 'AccessDenied', OURS],
    [400, 'AccessDeniedException', OURS],
    [400, 'RequestThrottled', OURS],
    [400, 'ThrottledException', OURS],
    [429, 'NeverHeardOf', OURS],
    [400, 'OverLimit', OURS],
    [400, 'KmsAccessDenied', OURS],
    [400, 'KMS.DisabledException', OURS],
    [400, 'InvalidMessageContents', { blame: 'message', final: true }],
    [400, 'InvalidParameterValue', { blame: 'message' }],
    [500, 'InternalFailure', { blame: 'transport', suspect: 'message' }],
    [503, 'ServiceUnavailable', { blame: 'transport' }],
    [403, 'ExpiredToken', { blame: 'transport' }],
    [403, 'SignatureDoesNotMatch', { blame: 'transport' }],
    [403, 'InvalidClientTokenId', { blame: 'transport' }],
    [400, 'RequestExpired', { blame: 'transport' }],
    [400, 'NeverHeardOf', { blame: 'transport', suspect: 'message' }],
    [502, undefined, { blame: 'transport' }],
    [0, undefined, { blame: 'transport', suspect: 'message' }],
  ])('%d %s to a request of one message', async (status, code, expected) => {
    answers['SendMessageBatch'] = { status, ...(code === undefined ? { body: '<html>' } : { code }) };
    const [result] = await publish(await open(), batch(1));
    const { error, ...rest } = result as { error: unknown; ok: boolean };
    expect(rest).toEqual({ ok: false, ...expected });
    if ((rest as { blame?: string }).blame === 'message') expect(String(error)).not.toContain('secret');
  });

  it('some taken, without an MD5 that the SDK knows, some refused, and one of which nothing is said', async () => {
    const failed = (Id: string, Code: string, SenderFault: boolean) => ({ Id, Code, SenderFault });
    const Failed = [
      failed('1', 'InvalidMessageContents', true),
      failed('2', 'Odd', true),
      failed('3', 'Odd', false),
      failed('4', 'KmsThrottled', true),
    ];
    answers['SendMessageBatch'] = { body: { Successful: [{ Id: '0' }], Failed } };
    expect(await publish(await open(), batch(6))).toMatchObject([
      { ok: true },
      { blame: 'message', final: true },
      { blame: 'message' },
      { blame: 'transport', suspect: 'message' },
      OURS,
      { blame: 'transport', suspect: 'message', error: { reason: 'NoAnswer' } },
    ]);
  });

  it.each(['AccessDenied', 'QueueDoesNotExist'])(
    'a login that gets %s for the queue of the question is connected',
    async (code) => {
      answers['GetQueueUrl'] = { status: 400, code };
      expect((await open()).health!()).toEqual({ up: true, state: 'connected' });
    },
  );

  it.each([
    [403, 'ExpiredToken'],
    [503, 'ServiceUnavailable'],
  ])('%d %s at the start is no connection', async (status, code) => {
    answers['GetQueueUrl'] = { status, code };
    await expect(open()).rejects.toThrow(`SQS is unavailable (${code}).`);
    expect(transport!.health!()).toMatchObject({ up: false });
  });

  it('credentials that are refused end the connection; those of the next one are new', async () => {
    const keys: string[] = [];
    const credentials = (): Promise<object> => {
      keys.push('asked');
      return Promise.resolve({ accessKeyId: 'a', secretAccessKey: 'b' });
    };
    const opened = await open({ ...config(), credentials });
    answers['SendMessageBatch'] = { status: 403, code: 'ExpiredToken' };
    await publish(opened, batch(1));
    expect(opened.health!()).toMatchObject({ up: false, state: 'closed' });
    const before = keys.length;
    await opened.connect!(AbortSignal.timeout(60_000));
    expect(keys.length).toBeGreaterThan(before);
  });

  it('the server that gives the URL of a queue takes its messages, also where the environment names it', async () => {
    const { endpoint, ...client } = configFor(String(config().endpoint));
    process.env['AWS_ENDPOINT_URL_SQS'] = endpoint;
    answers['GetQueueUrl'] = { body: { QueueUrl: 'http://127.0.0.1:1/1/orders' } };
    answers['SendMessageBatch'] = { body: { Successful: [{ Id: '0' }] } };
    expect(await publish(await open(client), batch(1))).toEqual([{ ok: true }]);
    delete process.env['AWS_ENDPOINT_URL_SQS'];
  });

  it('a clock that is wrong is set by the answer of SQS, for each new connection and question', async () => {
    const ahead = 20 * 60_000;
    const spoken = (date: string): string => date.replace(/(....)(..)(..)T(..)(..)(..)/, '$1-$2-$3T$4:$5:$6');
    server.prependListener('request', (request, response) => {
      response.setHeader('date', new Date(Date.now() + ahead).toUTCString());
      const isLate = Date.parse(spoken(String(request.headers['x-amz-date']))) < Date.now() + ahead / 2;
      answers['GetQueueUrl'] = isLate ? { status: 403, code: 'InvalidSignatureException' } : URL_OF_QUEUE;
    });
    answers['SendMessageBatch'] = { body: { Successful: [{ Id: '0' }] } };
    expect(await publish(await open(), batch(1))).toEqual([{ ok: true }]);
    const expected = [{ topic: 'orders', options: {} }];
    expect(await transport!.findMissing!(expected, AbortSignal.timeout(60_000))).toEqual([]);
  });

  const EAGER = {
    acquireInitialRetryToken: () => Promise.resolve(EAGER.token),
    refreshRetryTokenForRetry: () =>
      (EAGER.left -= 1) < 0 ? Promise.reject(new Error('enough')) : Promise.resolve(EAGER.token),
    recordSuccess: () => undefined,
    token: { getRetryCount: () => 1, getRetryDelay: () => 0 },
    left: 5,
  };
  it.each([
    ['retries', { maxAttempts: 5 }],
    ['strategy', { retryStrategy: EAGER }],
  ])("never asks twice, whatever the %s of the application's client, which stays open", async (_what, settings) => {
    const client = new SQSClient({ ...(config() as object), ...settings });
    const opened = await open(client);
    answers['SendMessageBatch'] = { status: 500, code: 'InternalError' };
    await publish(opened, batch(10));
    answers['SendMessageBatch'] = { status: 0 };
    await publish(opened, batch(10));
    expect(asked).toEqual(['GetQueueUrl', 'GetQueueUrl', 'SendMessageBatch', 'SendMessageBatch']);
    await opened.close!();
    answers['SendMessageBatch'] = { body: {} };
    expect((await open(client)).health!()).toMatchObject({ up: true });
    client.destroy();
  });

  it('as many connections as maxRequests, and more messages than those take wait for their turn', async () => {
    transport = (await sqs({ client: config(), maxRequests: 3 }).create()) as OutboxTransport;
    answers['SendMessageBatch'] = { body: { Successful: [], Failed: [] } };
    await transport.connect!(AbortSignal.timeout(60_000));
    const results = await publish(transport, batch(200));
    expect(results.every((result) => !result.ok && result.blame === 'transport')).toBe(true);
    expect(asked.filter((action) => action === 'SendMessageBatch')).toHaveLength(20);
    expect(connections).toBeLessThanOrEqual(4);
  });

  it('thousands that wait and are taken back leave the turn to the next one', async () => {
    const settings = resolveSqsOptions({
      client: config(),
      maxRequests: 1,
      queueUrl: (topic) => `http://sqs/1/${topic}`,
    });
    const requests = await SqsRequests.open(settings.client, 1, true);
    const [queues, envelope] = [new Queues(settings), createEnvelope()];
    const events = { lost: () => undefined, mayWrite: () => true };
    const session = new SqsSession({ requests, queues, envelope, settings, events });
    const sendTo = (topic: string, end = (): void => undefined): Send => {
      const ends = { taken: end, refused: end, unsendable: end };
      return { message: contractMessage({ topic }), isSettled: false, ...ends };
    };
    const given = Array.from({ length: 20_000 }, (_, n) => sendTo(`q${n}`));
    answers['SendMessageBatch'] = { body: { Successful: [{ Id: '0' }] } };
    const taken = new Promise<void>((resolve) => session.send([...given, sendTo('last', resolve)]));
    await until(() => asked.length > 0);
    session.takeBack(given);
    await taken;
    session.destroy(undefined);
    expect(asked.length).toBeLessThan(100);
  });

  it('a server that nobody listens at: not connected, and nobody is charged', async () => {
    transport = (await sqs({ client: configFor('http://127.0.0.1:1') }).create()) as OutboxTransport;
    await expect(transport.connect!(AbortSignal.timeout(60_000))).rejects.toThrow('ECONNREFUSED');
    const [result] = await publish(transport, batch(1));
    expect(result).toMatchObject({ ok: false, blame: 'transport' });
    expect(result).not.toHaveProperty('suspect');
    expect(result).not.toMatchObject({ error: expect.any(OutboxConfigurationError) });
  });
});
