import type { OutboxTransport } from '../../../lib/index.js';
import { sqs, SqsPublishError, type SqsOptions } from '../../../lib/transports/sqs/index.js';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { configFor, SqsObserver } from '../../support/sqs.js';

describeWith('sqs', 'queues of SQS that are there, or are not', () => {
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
  const missing = (destination: string) => ({
    ok: false,
    blame: 'transport',
    suspect: 'destination',
    certain: true,
    destination,
    error: expect.any(SqsPublishError),
  });

  it('a missing one is away by its name, others go on, and it is found when it is there', async () => {
    const transport = await open();
    const [there, name] = [await observer.queue(), observer.unusedName()];
    const batch = [there, name, there].map((topic, n) => contractMessage({ topic, key: `k${n}` }));
    expect(await publish(transport, batch)).toEqual([{ ok: true }, missing(`queue "${name}"`), { ok: true }]);
    expect(transport.health!()).toEqual({ up: true, state: 'connected' });
    expect(transport.destinationOf!(batch[1]!)).toBe(`queue "${name}"`);
    await observer.queue(name);
    expectAllOk(await publish(transport, [batch[1]!]));
  });

  it('one that is deleted is away, and its URL is asked for again', async () => {
    const transport = await open();
    const name = await observer.queue();
    expectAllOk(await publish(transport, [contractMessage({ topic: name })]));
    await observer.remove(name);
    expect(await publish(transport, [contractMessage({ topic: name })])).toEqual([missing(`queue "${name}"`)]);
    expect(await publish(transport, [contractMessage({ topic: name })])).toEqual([missing(`queue "${name}"`)]);
    await observer.queue(name);
    expectAllOk(await publish(transport, [contractMessage({ topic: name })]));
  });

  it('are asked for before there is a message, also by their URL', async () => {
    const [there, name] = [await observer.queue(), observer.unusedName()];
    const [here, gone] = [observer.urlOf(there), observer.urlOf(there).replace(there, name)];
    const transport = await open({ queueUrl: { here, gone } });
    const expected = [there, name, 'here', 'gone', name].map((topic) => ({ topic, options: {} }));
    const found = await transport.findMissing!(expected, AbortSignal.timeout(60_000));
    expect(found.map(({ destination }) => destination)).toEqual([`queue "${name}"`, `queue "${gone}"`]);
    expect(String(found[0]!.error)).toContain(`SQS has no queue "${name}"`);
    const aborted = transport.findMissing!(expected, AbortSignal.abort());
    await expect(aborted).rejects.toThrow('SQS');
  });

  it('are told to the doctor, over a client of its own', async () => {
    const [there, name] = [await observer.queue(), observer.unusedName()];
    const transport = (await sqs({ client: configFor(requiredUrl('sqs')) }).create()) as OutboxTransport;
    const expected = [there, name].map((topic) => ({ topic, options: {} }));
    const findings = await transport.diagnose!({ transport: 't', expected, outage: null }, AbortSignal.timeout(60_000));
    expect(findings.map(({ code, severity }) => `${code} ${severity}`)).toEqual([
      'broker ok',
      'destination ok',
      'dead-letters note',
      'destination-missing error',
    ]);
    expect(findings[1]!.evidence).toMatchObject({ destination: `queue "${there}"`, messages: 0 });
  });

  it('a function that throws, or gives no URL, is asked again at the next attempt', async () => {
    const topic = await observer.queue();
    let answer = (): string => {
      throw new Error('no');
    };
    const transport = await open({ queueUrl: () => answer() });
    const failed = { ok: false, blame: 'message', error: expect.objectContaining({ reason: 'queueUrl' }) };
    const one = (): Promise<unknown> => publish(transport, [contractMessage({ topic })]);
    expect(await one()).toEqual([failed]);
    answer = () => 'nonsense';
    expect(await one()).toEqual([failed]);
    answer = () => observer.urlOf(topic);
    expect(await one()).toEqual([{ ok: true }]);
  });
});
