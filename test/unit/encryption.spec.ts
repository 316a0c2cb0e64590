import { Destinations } from '../../lib/enqueue/destinations.js';
import { sealPayloads } from '../../lib/enqueue/seal-payloads.js';
import type { PayloadEncryption } from '../../lib/encryption.js';
import { OutboxMessage, type StoredMessage } from '../../lib/message.js';
import { OpenedBatch } from '../../lib/publish/open-payloads.js';
import { OutboxTransport, PUBLISHED, type PublishResult } from '../../lib/publish/transport.js';
import { resolveOptions } from '../../lib/resolve-options.js';
import { contractMessage } from '../../lib/testing/contract-message.js';
import { newMessage } from '../support/relay.js';

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
const message = (payload: string, keyId: string | null, more: Partial<StoredMessage> = {}): OutboxMessage => {
  const optionsJson = keyId === null ? null : JSON.stringify({ a: 1, $encryption: { keyId } });
  return new OutboxMessage({ ...contractMessage({ topic: 't', key: 'key', payload }), optionsJson, ...more });
};

async function publish(
  transport: Recorder,
  batch: readonly OutboxMessage[],
  { encryption }: { encryption?: PayloadEncryption } = { encryption: turning },
) {
  const results: (PublishResult | undefined)[] = batch.map(() => undefined);
  const report = (index: number, result: PublishResult): void => void (results[index] ??= result);
  const opened = await OpenedBatch.of(batch, transport, encryption);
  await opened.publish(transport, { report, timeout: 1_000, signal: AbortSignal.timeout(1_000) });
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
      expect.stringMatching(/^message: .*cannot be published: encryption.decrypt\(\) threw/),
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
    ['no key', { optionsJson: '{"$encryption":null}' }, { encryption: turning }],
    ['no bytes', {}, { encryption: { ...turning, decrypt: () => 'text' as never } }],
    ['no encryption', {}, {}],
  ])('never sends what it did not decrypt: %s', async (_, more, encryption) => {
    const transport = new Recorder();
    expect(await publish(transport, [message('secret', 'k', more)], encryption)).toEqual([
      expect.stringMatching(/^message: .*cannot be published/),
    ]);
    expect(transport.seen).toEqual([]);
  });

  it('fails a message whose headers nobody can read, and sends its neighbours', async () => {
    const transport = new Recorder();
    const batch = [message('eno', 'k', { headersJson: '{' }), message('owt', 'k')];
    expect(await publish(transport, batch, { encryption: { ...turning, deliver: 'encrypted' } })).toEqual([
      expect.stringMatching(/^message: .*headers are no JSON/),
      true,
    ]);
    expect(transport.seen).toEqual(['owt']);
  });

  it('tells errors of the transport without the payload', async () => {
    const transport = new Recorder();
    const quoting = async (batch: readonly OutboxMessage[]): Promise<never> => {
      throw new Error(`cannot send ${String(batch[0]?.payload)}`);
    };
    Object.assign(transport, { publish: quoting });
    const batch = [message(JSON.stringify('a long secret').split('').reverse().join(''), 'k')];
    await expect(publish(transport, batch)).rejects.toThrow(/^cannot send "\*\*\*"$/);
  });
});

describe('sealing payloads', () => {
  const destinations = (limits: object): Destinations => {
    const transports = { a: new Recorder(false, limits), b: new Recorder() };
    return new Destinations(resolveOptions({ transports, defaultTransport: 'a' }), new Map([['a', 0], ['b', 1]])); // prettier-ignore
  };

  it('encrypts a message once for all its transports, and two of one id each', async () => {
    const encrypt = jest.fn(turning.encrypt);
    const [payload, other] = [Buffer.from('abc'), Buffer.from('xyz')];
    const one = newMessage({ payload, options: '{"kafka":{"partition":1}}' });
    const rows = [one, { ...one, transport: 1 }, { ...one, payload: other }];
    const sealed = await sealPayloads(rows, { ...turning, encrypt }, destinations({}));
    expect(sealed.map((row) => String(row.payload))).toEqual(['cba', 'cba', 'zyx']);
    expect(encrypt).toHaveBeenCalledTimes(2);
    expect(sealed[0]?.options).toBe('{"kafka":{"partition":1},"$encryption":{"keyId":"k"}}');
    expect(rows.map((row) => String(row.payload))).toEqual(['abc', 'abc', 'xyz']);
  });

  it.each(['plain', 'encrypted'] as const)(
    'F6: refuses the header that a relay writes beside a ciphertext, also where this process delivers %s',
    async (deliver) => {
      const rows = (headers: object) => [newMessage({ payload: Buffer.from('abc'), headers: JSON.stringify(headers) })];
      const seal = (headers: object, encryption: PayloadEncryption = { ...turning, deliver }) =>
        sealPayloads(rows(headers), encryption, destinations({}));
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
    await expect(sealPayloads(rows, { ...turning, deliver: 'encrypted' }, small)).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
    });
    expect(await sealPayloads(rows, turning, small)).toHaveLength(1);
    expect(
      await sealPayloads([{ ...rows[0]!, transport: 1 }], { ...turning, deliver: 'encrypted' }, small),
    ).toHaveLength(1);
  });
});
