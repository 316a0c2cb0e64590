import { OutboxMessageError, type OutboxTransport } from '../../../lib/index.js';
import { sqs, type SqsOptions } from '../../../lib/transports/sqs/index.js';
import { enqueued } from '../../support/enqueue.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { configFor, SqsObserver } from '../../support/sqs.js';

const KIB = 1_024;

describeWith('sqs', 'what SQS can carry', () => {
  let observer: SqsObserver;
  let queue: string;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => {
    observer = new SqsObserver(requiredUrl('sqs'));
    queue = await observer.queue();
  });
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.close?.()));
    await observer.close();
  });
  const define = (options: SqsOptions = {}) => sqs({ client: configFor(requiredUrl('sqs')), ...options });
  async function open(options: SqsOptions = {}): Promise<OutboxTransport> {
    const transport = (await define(options).create()) as OutboxTransport;
    opened.push(transport);
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  }
  const bytes = (length: number): Buffer => Buffer.alloc(length, 255);
  const many = (count: number, length: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`h${n}`, 'x'.repeat(length)]));

  /** What is not refused at its enqueue, the server takes. */
  it.each([
    ['text', { payload: 'x'.repeat(254 * KIB) }, 'delivered'],
    ['text that is too large', { payload: 'x'.repeat(256 * KIB) }, 'refused'],
    ['bytes', { payload: bytes(191 * KIB), contentType: 'application/octet-stream' }, 'delivered'],
    [
      'bytes that are too large in base64',
      { payload: bytes(192 * KIB), contentType: 'application/octet-stream' },
      'refused',
    ],
    [
      'a long key and type',
      { key: 'k'.repeat(255), type: 'ü'.repeat(255), payload: 'x'.repeat(254 * KIB) },
      'delivered',
    ],
    ['many headers', { headers: many(100, 300), payload: 'x' }, 'delivered'],
    ['headers that leave no room', { headers: many(10, 2_000), payload: 'x'.repeat(240 * KIB) }, 'refused'],
    ['a reserved header', { headers: { key: 'x' }, payload: 'x' }, 'refused'],
    ['a topic that is no name', { topic: 'order.placed', payload: 'x' }, 'refused'],
    ['a topic that is too long', { topic: 'x'.repeat(81), payload: 'x' }, 'refused'],
  ])('%s', async (_what, input, verdict) => {
    const message = enqueued({ type: 'x', topic: queue, ...input }, define());
    if (message instanceof Error) {
      expect(message).toBeInstanceOf(OutboxMessageError);
      expect(verdict).toBe('refused');
      return;
    }
    expectAllOk(await publish(await open(), [message]));
    expect(verdict).toBe('delivered');
  });

  it('a row that is too large, and one among others that the server finds too large: these alone are to blame', async () => {
    const transport = await open();
    const row = contractMessage({ topic: queue, payload: 'x'.repeat(300 * KIB) });
    const [dead] = await publish(transport, [row]);
    expect(dead).toMatchObject({ ok: false, blame: 'message', final: true });
    const generous = await open({ maxMessageBytes: KIB * KIB });
    const batch = [10, 300, 100, 100, 100].map((size, n) =>
      contractMessage({ topic: queue, key: `k${n}`, payload: 'x'.repeat(size * KIB) }),
    );
    const results = await publish(generous, batch);
    expect(results.map(({ ok }) => ok)).toEqual([true, false, true, true, true]);
    expect(results[1]).toMatchObject({ blame: 'message', error: { reason: 'InvalidAttributeValue' } });
    expect(String((results[1] as { error: unknown }).error)).not.toContain('xxx');
  });

  it.each([
    ['no object', null, 'options are null'],
    ['a region at the wrong place', { region: 'eu-central-1' }, "did you mean 'client.region'?"],
    ['retries of the client', { client: { maxAttempts: 3 } }, 'client.maxAttempts cannot be set'],
    ['a client that is none', { client: 'eu-central-1' }, 'client must be the configuration of an SQSClient'],
    ['a prefix that is none', { queuePrefix: 'a.b' }, 'queuePrefix must be'],
    ['a URL that ends behind the name', { queueUrl: { a: 'https://sqs/1/a.fifo/' } }, 'queueUrl.a must be the URL'],
    ['a URL with a password', { queueUrl: { a: 'https://u:secret@sqs/1/a' } }, 'queueUrl.a must be the URL of a queue'],
    [
      'a limit above that of SQS',
      { maxMessageBytes: 2 ** 21 },
      'maxMessageBytes must be a whole number from 4096 to 1048576',
    ],
    ['a reserved header', { headers: { id: 'x' } }, 'headers.id is reserved'],
  ])('options: %s', (_what, options, text) => {
    expect(() => sqs(options as never)).toThrow(text);
    expect(() => sqs(options as never)).not.toThrow('secret');
  });
});
