import type { PublishResult, OutboxMessage } from '../../../lib/index.js';
import { keyFailure } from '../../../lib/encryption/decryption-failures.js';
import { KeyServices } from '../../../lib/encryption/key-services.js';
import { decrypting } from '../../../lib/encryption/decrypt-payloads.js';
import { OutboxTransport, PUBLISHED } from '../../../lib/transports/transport.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { stored, turn } from '../../support/transport-relay.js';

const down = keyFailure('k', new Error('ECONNREFUSED'));
const encrypted = (body: string): OutboxMessage => stored({ body, optionsJson: '{"$encryption":{"keyId":"k"}}' });

describe('what is known of a key', () => {
  const asked = (keys: KeyServices, id: string): 'key' | 'message' | 'not asked' => {
    const answer = keys.ask('k', id);
    return 'failure' in answer ? 'not asked' : keys.failed('k', id, answer, down);
  };

  it('J1: while it is away one message at a time asks; the first that is opened ends that', () => {
    const clock = new FakeClock();
    const keys = new KeyServices(clock);
    expect(asked(keys, 'a')).toBe('key');
    expect(asked(keys, 'b')).toBe('not asked');
    expect(keys.ask('another', 'b')).toEqual({ count: 0 });
    void clock.advance(200);
    expect(keys.ask('k', 'c')).toEqual({ count: 0 });
    expect(keys.ask('k', 'd')).toEqual({ failure: down });
    keys.opened('k', 'c');
    expect(keys.ask('k', 'd')).toEqual({ count: 1 });
    expect(keys.ask('k', 'e')).toEqual({ count: 1 });
  });

  it('J2: of those that wait for it not always the same one asks, or one that cannot be decrypted would be the only one', async () => {
    const clock = new FakeClock();
    const keys = new KeyServices(clock);
    const askedBy: string[] = [];
    // Their turns come once a second, in this order; two of them can never be decrypted.
    for (let second = 0; second < 12 && !askedBy.includes('good'); second += 1) {
      for (const id of ['never', 'nor this', 'good']) {
        if (asked(keys, id) !== 'not asked') askedBy.push(id);
        await clock.advance(10);
      }
      await clock.advance(970);
    }
    expect(askedBy.slice(0, 3)).toEqual(['never', 'nor this', 'good']);
    // Alone it is not kept from it.
    askedBy.length = 0;
    for (let second = 0; second < 12; second += 1) {
      if (asked(keys, 'never') !== 'not asked') askedBy.push('never');
      await clock.advance(1_000);
    }
    expect(askedBy.length).toBeGreaterThanOrEqual(3);
  });

  it('J2: a message is at fault that fails three times while others get through, and never in an outage', async () => {
    const clock = new FakeClock();
    const keys = new KeyServices(clock);
    const verdicts: string[] = [];
    for (let i = 0; i < 3; i += 1) {
      expect(asked(keys, 'a')).toBe('key');
      await clock.advance(2_000);
    }
    for (let i = 0; i < 5; i += 1) {
      keys.opened('k', `other ${i}`);
      verdicts.push(asked(keys, 'a'));
    }
    expect(verdicts).toEqual(['key', 'key', 'message', 'message', 'message']);
    expect(asked(keys, 'a')).toBe('key'); // nobody got through since
    await clock.advance(200);
    keys.opened('k', 'a');
    keys.opened('k', 'b');
    expect(asked(keys, 'a')).toBe('key');
  });

  it('J2: it remembers a thousand keys and messages', async () => {
    const keys = new KeyServices(new FakeClock());
    for (let i = 0; i < 2_000; i += 1) {
      keys.failed(`key ${i}`, `id ${i}`, { count: 0 }, down);
      keys.opened(`other ${i}`, 'x');
    }
    expect([keys.away.size, keys.strikes.size, keys.counts.size]).toEqual([1_000, 1_000, 1_000]);
  });
});

describe('a batch that is opened', () => {
  it('J3: goes out without those whose decrypt hangs, whose time ends before that of the batch', async () => {
    const clock = new FakeClock();
    const sent: string[][] = [];
    class Recorder extends OutboxTransport {
      override readonly receipt = 'broker';
      override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
        sent.push(batch.map(({ payload }) => String(payload)));
        return batch.map(() => PUBLISHED);
      }
    }
    let answer = (_: Buffer): void => undefined;
    const hanging = new Promise<Buffer>((resolve) => (answer = resolve));
    const decrypt = async ({ ciphertext }: { ciphertext: Uint8Array }): Promise<Uint8Array> =>
      String(ciphertext) === 'quick'
        ? ciphertext
        : String(ciphertext) === 'slow'
          ? hanging
          : new Promise(() => undefined);
    const wrap = decrypting({ encrypt: () => null, decrypt }, clock);
    const transport = await wrap('default', {
      kind: 'custom',
      receipt: 'broker',
      create: async () => new Recorder(),
    }).create();
    const batch = ['never', 'quick', 'slow', 'quick'].map(encrypted);
    const results = new Map<number, PublishResult>();
    const report = (index: number, result: PublishResult): void => void results.set(index, result);
    const signal = new AbortController().signal;
    const published = transport.publish(batch, { report, timeout: 10_000, signal });
    await turn();
    expect(sent).toEqual([]);
    await clock.advance(500);
    await turn();
    expect([sent, [...results.keys()]]).toEqual([[['quick', 'quick']], [1, 3]]);
    answer(Buffer.from('late'));
    await turn();
    await clock.advance(4_500);
    await published;
    expect(sent[1]).toEqual(['late']);
    const away = { suspect: 'key', destination: 'key "k"', retryIn: 1_000 };
    expect(results.get(0)).toMatchObject({ ok: false, blame: 'transport', ...away });
    expect(transport.destinationOf?.(batch[0]!)).toEqual(['key "k"']);
  });
});
