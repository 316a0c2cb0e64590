import type { OutboxMessage, OutboxTransport } from '../../../lib/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { contractMessage, publish } from '../../support/publish.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';

describeWith('rabbitmq', 'order per key through rabbitmq()', () => {
  let observer: RabbitMqObserver;
  const opened: OutboxTransport[] = [];
  beforeAll(async () => void (observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'))));
  afterAll(async () => {
    await Promise.all(opened.map((transport) => transport.close?.()));
    await observer.close();
  });
  async function transportOf(pipelineKeys: boolean): Promise<OutboxTransport> {
    const transport = await rabbitmq({ url: requiredUrl('rabbitmq'), pipelineKeys }).create();
    opened.push(transport);
    await transport.connect?.(AbortSignal.timeout(60_000));
    return transport;
  }

  it('with pipelineKeys, leaves a key in order after a nack although later messages were taken', async () => {
    const topic = await observer.queue({ maxLength: 5, overflow: 'reject-publish' });
    const transport = await transportOf(true);
    const sent = Array.from({ length: 100 }, (_, n) => contractMessage({ topic, key: 'one', payload: String(n) }));
    let rest: readonly OutboxMessage[] = sent;
    let nacked = 0;
    for (let round = 0; rest.length > 0 && round < 5_000; round++) {
      const results = await publish(transport, rest);
      const failed = results.findIndex((result) => !result.ok);
      if (failed < 0) break;
      nacked += 1;
      await observer.consume(topic, 1); // not before: the queue is full for once, however fast somebody reads
      // A prefix is published; from the first failure on nothing is, whatever the broker took.
      expect(results.slice(failed).every((result) => !result.ok)).toBe(true);
      expect(results[failed]).toMatchObject({ blame: 'transport', error: { reason: 'nacked' } });
      rest = rest.slice(failed);
    }
    expect(nacked).toBeGreaterThan(0);
    const end = contractMessage({ topic });
    while (!(await publish(transport, [end]))[0]!.ok);
    const found = await observer.receivedUpTo(topic, end.id);
    // The exception that is documented: a message may be seen before its predecessor, but then it is seen again after it.
    const last = new Map(found.map(({ id }, at) => [id, at]));
    const places = sent.map(({ id }) => last.get(id)!);
    expect(places).toEqual([...places].sort((a, b) => a - b));
  });

  it('with pipelineKeys, a failure of the empty key holds up no message without a key', async () => {
    const [topic, transport] = [await observer.queue(), await transportOf(true)];
    const batch = [
      contractMessage({ topic, key: '', options: { rabbitmq: { priority: 1_000 } } }),
      contractMessage({ topic, key: '' }),
      contractMessage({ topic }),
    ];
    const results = await publish(transport, batch);
    expect(results.map((result) => (result.ok ? 'ok' : result.blame))).toEqual(['message', 'collateral', 'ok']);
  });
});
