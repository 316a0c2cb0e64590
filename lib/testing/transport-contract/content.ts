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
    // A kind of header that `limits.check` refuses, as of a broker whose headers are text, never comes to `publish`.
    const { limits } = await run.harness.create();
    const [topic, key] = [await run.topic(), 'Größe/1'];
    const about = {
      topic,
      key,
      type: 'contract.tested',
      contentType: 'application/json',
      payloadBytes: 2,
      options: {},
    };
    const kinds = Object.entries(HEADERS).filter(
      ([name, value]) => limits?.check?.({ ...about, headers: { [name]: value } }) === undefined,
    );
    const found = await roundTrip({ key, headers: Object.fromEntries(kinds) });
    if (found.key !== undefined) assert.equal(found.key, key);
    if (found.headers === undefined) return;
    for (const [name, value] of kinds) assert.deepEqual(bytesOf(found.headers[name]), bytesOf(value), name);
  });
}

function bytesOf(value: HeaderValue | undefined): string[] | undefined {
  if (value === undefined) return undefined;
  const many = Array.isArray(value) ? (value as readonly (string | Uint8Array)[]) : [value as string | Uint8Array];
  return many.map((one) => Buffer.from(one as string).toString('hex'));
}
