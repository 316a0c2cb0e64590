import type { OutboxTransport } from '../../../lib/index.js';
import { sqs, type SqsOptions } from '../../../lib/transports/sqs/index.js';
import { contractMessage, expectAllOk, publish, type ContractMessageFields } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { configFor, SqsObserver, type SqsMessage } from '../../support/sqs.js';

describeWith('sqs', 'what SQS gets of a message', () => {
  let observer: SqsObserver;
  const opened: OutboxTransport[] = [];
  beforeAll(() => {
    observer = new SqsObserver(requiredUrl('sqs'));
  });
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.close?.()));
    await observer.close();
  });

  async function open(options: SqsOptions = {}): Promise<OutboxTransport> {
    const transport = (await sqs({ client: configFor(requiredUrl('sqs')), ...options }).create()) as OutboxTransport;
    opened.push(transport);
    await transport.connect!(AbortSignal.timeout(60_000));
    return transport;
  }
  async function roundTrip(fields: Omit<ContractMessageFields, 'topic'>, suffix = ''): Promise<SqsMessage> {
    const topic = await observer.queue(observer.unusedName(suffix));
    expectAllOk(await publish(await open(), [contractMessage({ topic, ...fields })]));
    return (await observer.received(topic, 1))[0]!;
  }
  const namesOf = ({ raw }: SqsMessage): string[] => Object.keys(raw.MessageAttributes!).sort();
  const OWN = ['content-type', 'id', 'time', 'type', 'version'];

  it('its envelope as attributes of text, and the payload as the body', async () => {
    const found = await roundTrip({ id: '0197a000-0000-7000-8000-000000000001', key: 'k', type: 'order.placed' });
    expect(found.raw.Body).toBe('{}');
    expect(found.raw.MessageAttributes).toEqual({
      id: { DataType: 'String', StringValue: '0197a000-0000-7000-8000-000000000001' },
      type: { DataType: 'String', StringValue: 'order.placed' },
      version: { DataType: 'String', StringValue: '1' },
      time: { DataType: 'String', StringValue: expect.stringMatching(/^\d{4}-.*Z$/) },
      'content-type': { DataType: 'String', StringValue: 'application/json' },
      key: { DataType: 'String', StringValue: 'k' },
    });
  });

  it("the caller's headers as attributes, as long as ten are enough", async () => {
    const headers = { tenant: 'a', bytes: Uint8Array.of(0, 255), traceparent: '00-1-2-01', 'x.y': 'Zoë 👋' };
    const found = await roundTrip({ key: 'k', headers });
    expect(namesOf(found)).toEqual([...OWN, 'key', ...Object.keys(headers)].sort());
    expect(found.headers).toMatchObject({ ...headers, bytes: Buffer.of(0, 255) });
  });

  it('of more headers than that the last ones as JSON, and never those of a trace', async () => {
    const headers = { ...Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`h${n}`, `${n}`])), traceparent: '00-1-2-01' };
    const found = await roundTrip({ key: 'k', headers });
    expect(namesOf(found)).toEqual([...OWN, 'key', 'h1', 'h2', 'headers', 'traceparent'].sort());
    expect(found.headers).toMatchObject(headers);
  });

  it.each([
    ['an empty value', { a: '' }],
    ['a control character', { a: 'x\u0001\uffff' }],
    ['several values', { a: ['x', Uint8Array.of(0, 255)] }],
    ['a name with a space', { 'a b': 'x' }],
    ['a name with two points', { 'a..b': 'x', '.c': 'x', 'd.': 'x' }],
    ['a name that is reserved by AWS', { 'aws.a': 'x', Amazon: 'x', 'amazon.b': 'x' }],
    ['a name that is a prototype', JSON.parse('{"__proto__":"x"}') as object],
  ])('what no attribute can be as JSON: %s', async (_what, headers) => {
    const found = await roundTrip({ headers: headers as never });
    for (const [name, value] of Object.entries(headers))
      expect(Buffer.from(String(found.headers[name]))).toEqual(
        Buffer.from(
          String(
            Array.isArray(value)
              ? value.map((one: string | Uint8Array) => (typeof one === 'string' ? one : Buffer.from(one)))
              : value,
          ),
        ),
      );
  });

  it.each([
    ['bytes', Buffer.of(0, 200, 10), 'base64', 'AMgK'],
    ['text with characters that SQS refuses', 'a\u0001\uffff', 'base64', 'YQHvv78='],
    ['nothing', '', 'empty', ' '],
    ['a tombstone', null, 'tombstone', 'null'],
    ['text in bytes', Buffer.from('Zoë'), undefined, 'Zoë'],
  ])('%s in a body of text', async (_what, payload, encoding, body) => {
    const found = await roundTrip({ payload });
    expect(found.headers['body-encoding']).toBe(encoding);
    expect(found.raw.Body).toBe(body);
    expect(found.payload).toEqual(payload === null ? null : Buffer.from(payload));
  });

  it('in a FIFO queue its key as the group, and its id as what duplicates are known by', async () => {
    const topic = await observer.queue(observer.unusedName('.fifo'));
    const transport = await open();
    const [first, second, none, odd, odd2] = ['k', 'k', null, 'Größe 1', 'Größe 1'].map((key) =>
      contractMessage({ topic, key }),
    );
    for (const message of [first!, second!, none!, odd!, odd2!, first!])
      expectAllOk(await publish(transport, [message]));
    const found = await observer.receivedAll(topic, [first!.id, second!.id, none!.id, odd!.id, odd2!.id]);
    expect(found).toHaveLength(5);
    const groupOf = (id: string) => found.find((one) => one.id === id)!.raw.Attributes!['MessageGroupId'];
    expect([groupOf(first!.id), groupOf(second!.id), groupOf(none!.id)]).toEqual(['k', 'k', none!.id]);
    expect(groupOf(odd!.id)).toMatch(/^[0-9a-f]{64}$/);
    expect(groupOf(odd2!.id)).toBe(groupOf(odd!.id));
    expect(found.map(({ raw }) => raw.Attributes!['MessageDeduplicationId'])).toEqual(found.map(({ id }) => id));
  });

  it('in the queue that prefix, suffix or queueUrl name, with the headers of the options', async () => {
    const [byName, byUrl, byFunction] = [
      await observer.queue(observer.unusedName('.fifo')),
      await observer.queue(),
      await observer.queue(),
    ];
    const topic = byName.slice(observer.prefix.length, -'.fifo'.length);
    const transport = await open({
      queuePrefix: observer.prefix,
      queueSuffix: '.fifo',
      queueUrl: { mapped: observer.urlOf(byUrl) },
      headers: { app: 'shop', region: 'eu' },
    });
    const headers = { region: 'us' };
    expectAllOk(await publish(transport, [contractMessage({ topic, headers }), contractMessage({ topic: 'mapped' })]));
    const asking = await open({ queueUrl: () => observer.urlOf(byFunction) });
    expectAllOk(await publish(asking, [contractMessage({ topic: 'any at all' })]));
    expect((await observer.received(byName, 1))[0]!.headers).toMatchObject({ app: 'shop', region: 'us' });
    await observer.received(byUrl, 1);
    await observer.received(byFunction, 1);
  });

  it('many small ones ten at a time, and as many large ones as a request may hold', async () => {
    const topic = await observer.queue();
    const transport = await open({ maxRequests: 2 });
    const payloads = Array.from({ length: 55 }, (_, n) => 'x'.repeat(n % 5 === 0 ? 100_000 : 10));
    expectAllOk(
      await publish(
        transport,
        payloads.map((payload, n) => contractMessage({ topic, key: `k${n}`, payload })),
      ),
    );
    expect((await observer.received(topic, 55)).map(({ payload }) => payload!.length).sort()).toEqual(
      payloads.map(({ length }) => length).sort(),
    );
  });
});
