import type { EncryptionContext, PayloadEncryption, PublishResult } from '../../../lib/index.js';
import { Destinations } from '../../../lib/enqueue/destinations.js';
import { encryptPayloads } from '../../../lib/enqueue/encrypt-payloads.js';
import { FakeClock } from '../../../lib/testing/index.js';
import { OutboxUndecryptableError } from '../../../lib/message/encryption.js';
import { OutboxMessage, type StoredMessage } from '../../../lib/outbox-message.js';
import { decrypting } from '../../../lib/encryption/decrypt-payloads.js';
import { OutboxTransport, PUBLISHED } from '../../../lib/transports/transport.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { contractMessage } from '../../support/publish.js';
import { newMessage } from '../../support/scripted.js';
import { turn } from '../../support/transport-relay.js';

class Recorder extends OutboxTransport {
  override readonly receipt = 'broker';
  readonly seen: string[] = [];
  constructor(
    override readonly atomicRuns = false,
    override readonly limits = {},
  ) {
    super();
  }
  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    this.seen.push(...batch.map(({ payload }) => String(payload)));
    return batch.map(() => PUBLISHED);
  }
}

/** Turns bytes round; knows the key `k` only. */
const turning: PayloadEncryption = {
  encrypt: (plaintext) => ({ keyId: 'k', ciphertext: Buffer.from(plaintext).reverse() }),
  decrypt: async ({ keyId, ciphertext }) => {
    if (keyId !== 'k') throw new Error(`no key ${keyId}`);
    return new Uint8Array(Buffer.from(ciphertext).reverse());
  },
};
const throwing = (error: Error): { encryption: PayloadEncryption } => ({
  encryption: { ...turning, decrypt: () => Promise.reject(error) },
});
const message = (payload: string, keyId: string | null, more: Partial<StoredMessage> = {}): OutboxMessage => {
  const optionsJson = keyId === null ? null : JSON.stringify({ a: 1, $encryption: { keyId } });
  return new OutboxMessage({ ...contractMessage({ topic: 't', key: 'key', payload }), optionsJson, ...more });
};

const CONTEXT = { report: () => undefined, timeout: 1_000, signal: new AbortController().signal };
const wrapped = async (
  transport: Recorder,
  encryption?: PayloadEncryption,
  clock = new FakeClock(),
  name = 'default',
) => decrypting(encryption, clock)(name, { kind: 'custom', receipt: 'broker', create: async () => transport }).create();

async function publish(
  transport: Recorder,
  batch: readonly OutboxMessage[],
  { encryption }: { encryption?: PayloadEncryption } = { encryption: turning },
) {
  const results: (PublishResult | undefined)[] = batch.map(() => undefined);
  const report = (index: number, result: PublishResult): void => void (results[index] ??= result);
  const clock = new FakeClock();
  const before = await wrapped(transport, encryption, clock);
  // No time goes by before everything is opened that can be.
  const published = before.publish([...batch], { ...CONTEXT, report });
  await Promise.all([published, turn().then(() => clock.advance(1_000))]);
  (await published)?.forEach((result, index) => report(index, result));
  return results.map((result) => (result?.ok === false ? `${result.blame}: ${String(result.error)}` : result?.ok));
}

describe('opening a batch', () => {
  it('sends what is in clear, what was decrypted, and neither what cannot be nor what follows it in its run', async () => {
    const batch = [
      message('one', null),
      message('owt', 'k'),
      message('eerht', 'gone'),
      message('ruof', 'k'),
      message('evif', 'k', { key: 'another' }),
      message('xis', 'k', { key: null }),
    ];
    const runs = new Recorder(true);
    expect(await publish(runs, batch)).toEqual([
      true,
      true,
      expect.stringMatching(/^transport: .*Nothing can be decrypted with key "gone" now/),
      expect.stringMatching(/^collateral: .*An earlier message of its key/),
      true,
      true,
    ]);
    expect(runs.seen).toEqual(['one', 'two', 'five', 'six']);
    const singles = new Recorder();
    await publish(singles, batch);
    expect(singles.seen).toEqual(['one', 'two', 'four', 'five', 'six']);
  });

  it.each([
    ['options that name it somewhere else', { optionsJson: '{"custom":{"$encryption":1}}' }],
    ['options that are no JSON', { optionsJson: '"$encryption"' + '{' }],
  ])('takes a payload for one in clear: %s', async (_, more) => {
    const transport = new Recorder();
    expect(await publish(transport, [message('clear', null, more)])).toEqual([true]);
    expect(transport.seen).toEqual(['clear']);
  });

  it.each([
    ['message', 'no key', { optionsJson: '{"$encryption":null}' }, { encryption: turning }],
    ['message', 'an escaped name', { optionsJson: '{"\\u0024encryption":"k"}' }, { encryption: turning }],
    ['message', 'a key that is gone', {}, throwing(new OutboxUndecryptableError())],
    ['message', 'what OpenSSL says', {}, throwing(new Error('Unsupported state or unable to authenticate data'))],
    ['message', 'what WebCrypto says', {}, throwing(new DOMException('it failed', 'OperationError'))],
    ['message', 'headers that nobody can read', { headersJson: '{' }, { encryption: turning }],
    [
      'transport',
      'an escaped name, unknown key',
      { optionsJson: '{"\\u0024encryption":{"keyId":"x"}}' },
      { encryption: turning },
    ],
    ['transport', 'no answer', {}, { encryption: { ...turning, decrypt: () => new Promise<never>(() => undefined) } }],
    ['transport', 'no bytes', {}, { encryption: { ...turning, decrypt: () => 'text' as never } }],
    ['transport', 'no encryption', {}, {}],
  ])('J4: never sends what it did not decrypt, charged to the %s: %s', async (blame, _, more, encryption) => {
    const transport = new Recorder();
    expect(await publish(transport, [message('secret', 'k', more)], encryption)).toEqual([
      expect.stringMatching(new RegExp(`^${blame}: OutboxError: `)),
    ]);
    expect(transport.seen).toEqual([]);
  });

  it('J5: never sends in clear what must be encrypted', async () => {
    const transport = new Recorder();
    const encryption = { ...turning, required: ({ type }: { type: string }) => type === 'card' };
    const batch = [
      message('clear', null, { type: 'card' }),
      message('clear', null),
      message('owt', 'k', { type: 'card' }),
    ];
    const refused = expect.stringMatching(/^message: .*in clear, and `encryption.required` forbids that/);
    expect(await publish(transport, batch, { encryption })).toEqual([refused, true, true]);
    expect(transport.seen).toEqual(['clear', 'two']);
    expect(await publish(transport, batch, { encryption: { ...turning, required: true } })).toEqual([
      refused,
      refused,
      true,
    ]);
    const broken = { ...turning, required: () => { throw new Error('no'); } }; // prettier-ignore
    expect(await publish(transport, batch, { encryption: broken })).toEqual([
      expect.stringMatching(/required\(\) threw/),
      expect.stringMatching(/required\(\) threw/),
      true,
    ]);
    expect(await publish(transport, [message('', null, { body: null })], { encryption: { ...turning, required: true } })).toEqual([true]); // prettier-ignore
  });

  it('fails a message whose headers nobody can read, and sends its neighbours', async () => {
    const transport = new Recorder();
    const batch = [message('eno', 'k', { headersJson: '{' }), message('owt', 'k')];
    expect(await publish(transport, batch, { encryption: { ...turning, deliver: 'encrypted' } })).toEqual([
      expect.stringMatching(/^message: .*what is stored beside its payload cannot be read/),
      true,
    ]);
    expect(transport.seen).toEqual(['owt']);
  });

  it('leaves what was decrypted in the place of what was read: errors of the transport may quote it', async () => {
    const batch = [message('owt', 'k'), message('one', null)];
    await (await wrapped(new Recorder(), turning)).publish(batch, CONTEXT);
    expect(batch.map(({ payload }) => String(payload))).toEqual(['two', 'one']);
  });
});

describe('sealing payloads', () => {
  const destinations = (limits: object): Destinations => {
    const transports = { a: new Recorder(false, limits), b: new Recorder() };
    return new Destinations(resolveOptions({ transports, defaultTransport: 'a' }), new Map([['a', 0], ['b', 1]])); // prettier-ignore
  };

  it('J4: tells where each message goes, for each of its transports, in the same words as the relay', async () => {
    const said: EncryptionContext[] = [];
    const telling: PayloadEncryption = {
      encrypt: (plaintext, context) => (said.push(context), turning.encrypt(plaintext, context)),
      decrypt: (encrypted, context) => (said.push(context), turning.decrypt(encrypted, context)),
    };
    const one = newMessage({
      payload: Buffer.from('abc'),
      options: '{"kafka":{"partition":1,"a":["\\u00e4",{"z":1,"b":null}]},"$retry":{"max":1},"amqp":1}',
      headers: '{"b":"2","a":{"b64":"AA=="},"__proto__":"x"}',
    });
    const sealed = await encryptPayloads([one, { ...one, transport: 1 }], telling, destinations({}));
    expect(sealed.map((row) => String(row.payload))).toEqual(['cba', 'cba']);
    expect(sealed[0]?.options).toMatch(/,"amqp":1,"\$encryption":\{"keyId":"k"\}\}$/);
    expect(String(one.payload)).toBe('abc');
    const { id, type, version, topic, key, contentType } = one;
    const rest = {
      options: '{"$retry":{"max":1},"amqp":1,"kafka":{"a":["ä",{"b":null,"z":1}],"partition":1}}',
      headers: '{"__proto__":"x","a":{"b64":"AA=="},"b":"2"}',
    };
    const context = { id, type, version, topic, key, contentType, ...rest };
    expect(said).toEqual([{ ...context, transport: 'a' }, { ...context, transport: 'b' }]); // prettier-ignore
    const { headers: headersJson, options: optionsJson, payload: body } = sealed[1]!;
    const stored = new OutboxMessage({ ...message('', null), ...one, body: body as Buffer, headersJson, optionsJson });
    await (await wrapped(new Recorder(), telling, new FakeClock(), 'b')).publish([stored], CONTEXT);
    expect(said[2]).toEqual(said[1]);
  });

  it('J5: what must be encrypted is not stored in clear', async () => {
    const inClear = { ...turning, encrypt: () => null };
    const rows = [newMessage({ payload: Buffer.from('abc'), type: 'card' })];
    for (const required of [true, ({ type }: { type: string }) => type === 'card'])
      await expect(encryptPayloads(rows, { ...inClear, required }, destinations({}))).rejects.toMatchObject({
        code: 'ENCRYPTION_FAILED',
        message: expect.stringMatching(/gave null, which encryption.required forbids/),
      });
    for (const required of [false, ({ type }: { type: string }) => type !== 'card'])
      expect(await encryptPayloads(rows, { ...inClear, required }, destinations({}))).toEqual(rows);
  });

  it.each(['plain', 'encrypted'] as const)(
    'F6: refuses the header that a relay writes beside a ciphertext, also where this process delivers %s',
    async (deliver) => {
      const rows = (headers: object) => [newMessage({ payload: Buffer.from('abc'), headers: JSON.stringify(headers) })];
      const seal = (headers: object, encryption: PayloadEncryption = { ...turning, deliver }) =>
        encryptPayloads(rows(headers), encryption, destinations({}));
      const mine = { 'encryption-key-id': 'mine' };
      await expect(seal(mine)).rejects.toMatchObject({
        code: 'INVALID_MESSAGE',
        message: expect.stringMatching(/the header name encryption-key-id is reserved/),
      });
      for (const headers of [{ h: 'encryption-key-id' }, { '"encryption-key-id': 'x' }, { 'encryption-key-id2': 'x' }])
        expect(await seal(headers)).toHaveLength(1);
      expect(await seal(mine, { ...turning, deliver, encrypt: () => null })).toHaveLength(1); // in clear: nobody labels it
    },
  );

  it('refuses what a broker that gets the ciphertext cannot take', async () => {
    const rows = [newMessage({ payload: Buffer.from('abcd') })];
    const small = destinations({ payloadBytes: 3 });
    await expect(encryptPayloads(rows, { ...turning, deliver: 'encrypted' }, small)).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
    });
    expect(await encryptPayloads(rows, turning, small)).toHaveLength(1);
    expect(
      await encryptPayloads([{ ...rows[0]!, transport: 1 }], { ...turning, deliver: 'encrypted' }, small),
    ).toHaveLength(1);
  });
});
