import assert from 'node:assert/strict';
import type { HeaderValue } from '../../outbox-message.js';
import { contractMessage } from './contract-message.js';
import type { ContractRun } from './run.js';
import type { ContractRunner, ReceivedMessage } from './harness.js';

const PAYLOADS: readonly (readonly [string, string | Uint8Array])[] = [
  ['text', '{"name":"Zoë 👋"}'],
  ['bytes that are no text', Uint8Array.of(0, 255, 254, 10, 13, 0, 195, 40)],
  ['nothing', ''],
  ['200 KB', Buffer.alloc(200_000, 'x')],
];

const HEADERS: Readonly<Record<string, HeaderValue>> = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'x-empty': '',
  'x-umlaut': 'Zoë',
  'x-bytes': Uint8Array.of(0, 255, 1),
  'x-many': ['one', 'two'],
};

/** Bytes in, bytes out; needs a consumer. */
export function describeContent(run: ContractRun, { it }: ContractRunner): void {
  const received = run.harness.received?.bind(run.harness);
  if (received === undefined) return;
  const roundTrip = async (fields: Omit<Parameters<typeof contractMessage>[0], 'topic'>): Promise<ReceivedMessage> => {
    const [transport, topic] = [await run.connected(), await run.topic()];
    const message = contractMessage({ ...fields, topic });
    await run.publishAll(transport, [message]);
    const [found] = await received(topic, 1);
    assert.equal(found?.id, message.id);
    return found!;
  };

  for (const [what, payload] of PAYLOADS) {
    it(`carries a payload unchanged: ${what}`, async () => {
      const found = await roundTrip({ key: 'k', payload });
      assert.ok(found.payload !== null && Buffer.from(payload).equals(found.payload));
    });
  }

  it('carries a tombstone that can be told from an empty payload', async () => {
    const transport = await run.harness.create();
    if (transport.limits?.tombstones === false) return;
    assert.equal((await roundTrip({ key: 'k', payload: null })).payload, null);
  });

  it('carries key and headers: text, bytes, several values', async () => {
    const found = await roundTrip({ key: 'Größe/1', headers: HEADERS });
    if (found.key !== undefined) assert.equal(found.key, 'Größe/1');
    if (found.headers === undefined) return;
    for (const [name, value] of Object.entries(HEADERS))
      assert.deepEqual(bytesOf(found.headers[name]), bytesOf(value), name);
  });
}

function bytesOf(value: HeaderValue | undefined): string[] | undefined {
  if (value === undefined) return undefined;
  const many = Array.isArray(value) ? (value as readonly (string | Uint8Array)[]) : [value as string | Uint8Array];
  return many.map((one) => Buffer.from(one as string).toString('hex'));
}
