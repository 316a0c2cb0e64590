import { NEVER } from 'rxjs';
import { clientProxy, type ClientProxyOptions } from 'nestjs-outbox/client-proxy';
import type { PublishResult } from '../../../../lib/index.js';
import { OutboxMessage } from '../../../../lib/outbox-message.js';
import { contractMessage, probePublish, publish } from '../../../support/publish.js';
import { OwnClient } from '../../../support/own-client.js';

async function results(
  options: Omit<ClientProxyOptions, 'client'>,
  ...batch: OutboxMessage[]
): Promise<readonly PublishResult[]> {
  const transport = await clientProxy({ client: new OwnClient(), allowUnconfirmed: true, ...options }).create();
  const outcome = await probePublish(transport, batch, { timeout: 60_000 });
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

  it.each(['pattern', 'record'] as const)(
    'K4: what the application’s %s function promises is waited for, and its rejection is the message’s',
    async (option) => {
      const client = new OwnClient();
      const call = async (message: OutboxMessage): Promise<string> => bug(message);
      const transport = await clientProxy({ client, allowUnconfirmed: true, [option]: call }).create();
      const found = await publish(transport, [bad, good]);
      await transport.close?.();
      expect(client.packets).toEqual([{ pattern: 'good', data: option === 'record' ? 'good' : {} }]);
      expect(found).toEqual([
        expect.objectContaining({
          ok: false,
          blame: 'message',
          error: expect.objectContaining({ code: 'PUBLISH_REJECTED' }),
        }),
        { ok: true },
      ]);
      expect(found[0]).not.toHaveProperty('final');
    },
  );

  it.each(['pattern', 'record'] as const)(
    'K4: a %s function that never ends fails its message, in time, and costs nobody the connection',
    async (option) => {
      const client = new OwnClient();
      const call = (message: OutboxMessage): unknown =>
        message.topic === 'bad' ? new Promise(() => {}) : message.topic;
      const options = { client, allowUnconfirmed: true, concurrency: 2, [option]: call };
      const transport = await clientProxy(options).create();
      const outcome = await probePublish(transport, [bad, good, good, good], { timeout: 1_000 });
      expect(outcome.results.map(({ ok }) => ok)).toEqual([false, true, true, true]);
      expect(outcome.results[0]).toMatchObject({
        blame: 'message',
        error: { message: expect.stringContaining(option) },
      });
      expect(transport.health?.()).toMatchObject({ up: true });
      await transport.close?.();
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

  it.each(['rmq', 'plain'] as const)(
    'gives an encrypted payload as bytes, whatever its label says: %s',
    async (record) => {
      const client = new OwnClient();
      const transport = await clientProxy({ client, allowUnconfirmed: true, record }).create();
      const optionsJson = JSON.stringify({ $encryption: { keyId: 'key-1' } });
      const message = new OutboxMessage({ ...contractMessage({ topic: 't', payload: '{"a":1}' }), optionsJson });
      expect(await publish(transport, [message])).toEqual([{ ok: true }]);
      await transport.close?.();
      const [{ data }] = client.packets as [{ data: { data: unknown } }];
      expect(record === 'rmq' ? data.data : data).toEqual(Buffer.from('{"a":1}'));
    },
  );
});

describe('clientProxy() and a client that is not as Nest’s are', () => {
  const emitting = (given: () => unknown): OwnClient => Object.assign(new OwnClient(), { emit: given }) as OwnClient;

  it.each([
    ['a promise', async () => undefined],
    ['a promise that rejects', async () => Promise.reject(new Error('nobody listens'))],
    ['nothing', () => undefined],
  ])('N5: emit() that gives %s is nobody’s fault, and is named', async (_what, given) => {
    const transport = await clientProxy({ client: emitting(given), allowUnconfirmed: true }).create();
    const found = await publish(transport, [good]);
    await transport.close?.();
    expect(found[0]).toMatchObject({
      ok: false,
      blame: 'transport',
      error: { code: 'TRANSPORT_UNAVAILABLE', message: expect.stringContaining('Observable') },
    });
  });

  it('N5: what gets no answer is told in whole milliseconds', async () => {
    const client = emitting(() => NEVER);
    const transport = await clientProxy({ client, allowUnconfirmed: true }).create();
    const { results: found } = await probePublish(transport, [good], { timeout: 1_000.4 });
    await transport.close?.();
    expect(found[0]).toMatchObject({
      error: { message: expect.stringMatching(/^No answer within \d+ ms; the client was closed\.$/) },
    });
  });
});
