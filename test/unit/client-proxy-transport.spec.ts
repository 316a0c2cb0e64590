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
