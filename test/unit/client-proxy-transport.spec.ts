import { clientProxy, type ClientProxyOptions } from 'nestjs-outbox/client-proxy';
import { OutboxMessage } from '../../lib/message.js';
import type { PublishResult } from '../../lib/publish/transport.js';
import { contractMessage } from '../../lib/testing/contract-message.js';
import { probePublish } from '../../lib/testing/publish-probe.js';
import { OwnClient } from '../support/own-client.js';

async function results(
  options: Omit<ClientProxyOptions, 'client'>,
  ...batch: OutboxMessage[]
): Promise<readonly PublishResult[]> {
  const transport = await clientProxy({ client: new OwnClient(), allowUnconfirmed: true, ...options }).create();
  const outcome = await probePublish(transport, batch, { timeout: 5_000 });
  await transport.close?.();
  return outcome.results;
}
const [bad, good] = [contractMessage({ topic: 'bad' }), contractMessage({ topic: 'good' })];

describe('clientProxy() and a message that cannot be given to the client', () => {
  const bug = (message: OutboxMessage): string => {
    if (message.topic === 'bad') throw new TypeError('a bug of this deployment');
    return message.topic;
  };

  it.each(['pattern', 'record'] as const)(
    'what the application’s %s function throws costs an attempt, and is not final: its next deployment may work',
    async (option) => {
      const [failed, ok] = await results({ [option]: bug }, bad, good);
      expect(ok).toEqual({ ok: true });
      expect(failed).toMatchObject({
        ok: false,
        blame: 'message',
        error: {
          code: 'PUBLISH_REJECTED',
          message: expect.stringContaining(option),
          cause: { message: 'a bug of this deployment' },
        },
      });
      expect(failed).not.toHaveProperty('final');
    },
  );

  it.each([
    ['rmq', contractMessage({ topic: 'bad', payload: '{"cut' })],
    ['plain', contractMessage({ topic: 'bad', payload: '{"cut' })],
    ['kafka', new OutboxMessage({ ...bad, headersJson: '{"cut' })],
    ['kafka', new OutboxMessage({ ...bad, optionsJson: '{"cut' })],
  ] as const)('what the record %s cannot be made of is final: it stays what it is', async (record, message) => {
    const [failed, ok] = await results({ record }, message, good);
    expect(failed).toMatchObject({ ok: false, blame: 'message', final: true });
    expect(ok).toEqual({ ok: true });
  });
});

describe('clientProxy() over ClientKafka and a message without a topic', () => {
  /** As kafkajs answers. */
  class ClientKafka extends OwnClient {
    protected override async dispatchEvent<T>(...[packet]: unknown[]): Promise<T> {
      const { pattern } = packet as { pattern: string };
      if (pattern === '') throw Object.assign(new Error('Invalid topic'), { name: 'KafkaJSNonRetriableError' });
      return [{ topicName: pattern, partition: 0, errorCode: 0 }] as T;
    }
  }
  const empty = contractMessage({ topic: '' });

  it.each([
    ['dead at once', {}, true],
    ['as long as the pattern is a function’s, tried again', { pattern: () => '' }, undefined],
  ] as const)('it alone fails: %s', async (_what, options, final) => {
    const transport = await clientProxy({ client: new ClientKafka(), concurrency: 1, ...options }).create();
    const { results: found } = await probePublish(transport, final ? [good, empty, good] : [empty], { timeout: 5_000 });
    await transport.close?.();
    const failed = found[final ? 1 : 0];
    expect(failed).toMatchObject({ ok: false, blame: 'message', error: { code: 'INVALID_MESSAGE' } });
    expect((failed as { final?: true }).final).toBe(final);
    expect(found.filter(({ ok }) => ok)).toHaveLength(final ? 2 : 0);
  });
});
