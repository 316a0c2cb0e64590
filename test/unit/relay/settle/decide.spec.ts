import fc from 'fast-check';
import { OutboxMessage, type StoredMessage } from '../../../../lib/outbox-message.js';
import { OutboxError } from '../../../../lib/outbox.errors.js';
import type { RetryPolicy } from '../../../../lib/outbox.options.js';
import type { PublishFailure } from '../../../../lib/transports/transport.js';
import { backoff } from '../../../../lib/relay/settle/backoff.js';
import { decide } from '../../../../lib/relay/settle/decide.js';

const CREATED = Date.UTC(2026, 0, 1);
const POLICY: RetryPolicy = {
  initial: 1_000,
  max: 300_000,
  maxAttempts: 5,
  maxAge: null,
  errorHistory: 0,
  classify: undefined,
  onDead: 'block',
};
const message = (fields: Partial<StoredMessage> = {}): OutboxMessage =>
  new OutboxMessage({
    bucket: 0,
    seq: '1',
    id: '01890a5d-ac96-774b-bcce-b302099a8057',
    topic: 't',
    key: 'k',
    type: 't',
    version: 1,
    contentType: 'application/json',
    headersJson: null,
    optionsJson: null,
    body: null,
    createdText: '2026-01-01 00:00:00+00',
    attempts: 0,
    parkedId: null,
    parkedState: null,
    ...fields,
  });
const failure = (fields: Partial<PublishFailure> = {}): PublishFailure => ({
  ok: false,
  blame: 'message',
  error: new Error('no'),
  ...fields,
});
const verdict = (fields: Partial<StoredMessage>, failed: Partial<PublishFailure>, policy: Partial<RetryPolicy> = {}) =>
  decide(message(fields), failure(failed), { ...POLICY, ...policy }, CREATED + 60_000, 0.5);

describe('backoff', () => {
  it('doubles up to the cap, and never is nothing', () => {
    const ceilings = [1, 2, 3, 4, 9, 10, 11].map((attempts) => backoff(attempts, 1_000, 300_000, 1));
    expect(ceilings).toEqual([1_000, 2_000, 4_000, 8_000, 256_000, 300_000, 300_000]);
    expect(backoff(1, 1_000, 300_000, 0)).toBe(1);
    expect(backoff(1_000_000, 1_000, 300_000, 0.999_999)).toBeLessThanOrEqual(300_000);
  });

  it('D4: any attempt from 1 to 2^31 and beyond, any policy: a whole delay from 1 to the cap, and attempts that fit the column', () => {
    const cap = 2 ** 31 - 1;
    const policy = fc.record({ initial: fc.integer({ min: 1, max: cap }), max: fc.integer({ min: 1, max: cap }) });
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 }), policy, chance, (attempts, { initial, max }, random) => {
        const delay = backoff(Math.max(1, attempts), initial, max, random);
        expect(Number.isSafeInteger(delay) && delay >= 1 && delay <= max).toBe(true);
        const outcome = decide(
          message({ attempts: Math.min(attempts, cap) }),
          failure({}),
          { ...POLICY, initial, max, maxAttempts: null },
          CREATED,
          random,
        );
        expect(outcome).toMatchObject({ kind: 'retry', attempts: Math.min(attempts + 1, cap) });
      }),
    );
  });

  it('has full jitter: anything from nothing to the ceiling', () => {
    const delays = Array.from({ length: 1_000 }, (_, i) => backoff(4, 1_000, 300_000, i / 1_000));
    expect(Math.min(...delays)).toBe(1);
    expect(Math.max(...delays)).toBeGreaterThan(7_900);
    expect(delays.reduce((a, b) => a + b) / 1_000).toBeCloseTo(3_996, -1);
  });
});

describe('decide', () => {
  it.each([
    ['a first failure', {}, {}, {}, { kind: 'retry', attempts: 1, delay: 500 }],
    ['the last one that is allowed', { attempts: 3 }, {}, {}, { kind: 'retry', attempts: 4, delay: 4_000 }],
    ['the limit', { attempts: 4 }, {}, {}, { kind: 'dead', attempts: 5, blocks: true }],
    ['a limit that was lowered', { attempts: 40 }, {}, {}, { kind: 'dead', attempts: 41, blocks: true }],
    ['no limit', { attempts: 1_000 }, {}, { maxAttempts: null }, { kind: 'retry', attempts: 1_001, delay: 150_000 }],
    ['too old', {}, {}, { maxAge: 60_000 }, { kind: 'dead', attempts: 1, blocks: true }],
    ['old, not too old', {}, {}, { maxAge: 60_001 }, { kind: 'retry', attempts: 1, delay: 500 }],
    ['what the broker never takes', {}, { final: true }, {}, { kind: 'dead', attempts: 1, blocks: true }],
    ['no key: nobody to block', { attempts: 4, key: null }, {}, {}, { kind: 'dead', attempts: 5, blocks: false }],
    ['skip', { attempts: 4 }, {}, { onDead: 'skip' }, { kind: 'dead', attempts: 5, blocks: false }],
    [
      'an outage, too old and at its limit',
      { attempts: 4 },
      { blame: 'transport' },
      { maxAge: 1 },
      { kind: 'release', alone: false },
    ],
    ['a neighbour’s', { attempts: 4 }, { blame: 'collateral' }, {}, { kind: 'release', alone: true }],
    [
      'a final failure of the transport',
      {},
      { blame: 'transport', final: true },
      {},
      { kind: 'release', alone: false },
    ],
  ] as const)('%s', (_, fields, failed, policy, outcome) => {
    expect(verdict(fields, failed, policy)).toEqual(outcome);
  });

  it('lets a classifier overrule, and keeps the verdict of one that has none', () => {
    const classify = (verdictOf: ReturnType<NonNullable<RetryPolicy['classify']>>) => ({ classify: () => verdictOf });
    expect(verdict({}, {}, classify('dead'))).toMatchObject({ kind: 'dead', attempts: 1 });
    expect(verdict({}, {}, classify('transport'))).toEqual({ kind: 'release', alone: false });
    expect(verdict({}, { blame: 'transport' }, classify('message'))).toMatchObject({ kind: 'retry', attempts: 1 });
    expect(verdict({}, { blame: 'transport' }, classify(undefined))).toMatchObject({ kind: 'release' });
    const later = Promise.reject(new Error('a classifier that asks somebody')) as never;
    expect(() => verdict({}, { blame: 'transport' }, classify(later))).toThrow('retry.classify returned a Promise');
  });

  it('takes what the message brought along before what the module says', () => {
    const optionsJson = JSON.stringify({ $retry: { maxAttempts: 1, onDead: 'skip' } });
    expect(verdict({ optionsJson }, {})).toEqual({ kind: 'dead', attempts: 1, blocks: false });
    expect(verdict({ optionsJson: '{"kafka":{"partition":1}}' }, {})).toMatchObject({ kind: 'retry' });
  });

  it('J8: never tries a row faster than every 100 ms at first and every second later, unless the module does', () => {
    const optionsJson = JSON.stringify({ $retry: { maxAttempts: null, initial: 1, max: 1 } });
    const delays = (policy: Partial<RetryPolicy>): unknown[] =>
      [0, 1, 9].map((attempts) => verdict({ optionsJson, attempts }, {}, policy));
    const after = (attempts: number, delay: number): object => ({ kind: 'retry', attempts, delay });
    expect(delays({})).toEqual([after(1, 50), after(2, 100), after(10, 500)]);
    expect(delays({ initial: 10, max: 20 })).toEqual([after(1, 5), after(2, 10), after(10, 10)]);
  });

  const none = { kind: 'retry', attempts: 1, delay: 500 };
  it.each<[string, object]>([
    ['{"$retry":{"max":"a","initial":"abc","maxAttempts":"x","maxAge":"y","onDead":"die"}}', none],
    ['{"$retry":{"initial":-5000,"max":0,"maxAttempts":0,"maxAge":-1,"onDead":null}}', none],
    ['{"$retry":{"initial":1e30,"max":1e30,"maxAttempts":1.5,"maxAge":1}}', none],
    ['{"$retry":{"initial":null,"max":[],"maxAttempts":{},"maxAge":null,"classify":"dead"}}', none],
    ['{"$retry":{"max":"abc","initial":200}}', { ...none, delay: 100 }],
    ['{"$retry":{"max":"1s","initial":"1m"}}', none],
    ['{"$retry":null}', none],
    ['{"$retry":5}', none],
    ['{"$retry":["max"]}', none],
    ['null', none],
    ['5', none],
    ['{cut', none],
  ])('of what a row of another program says it takes what the options would take: %s', (optionsJson, outcome) => {
    expect(verdict({ optionsJson }, {})).toEqual(outcome);
  });

  it('K7: a classifier has no say where its handler was not called', () => {
    const busy = new OutboxError('HANDLER_BUSY', 'busy');
    const failed: Partial<PublishFailure> = { blame: 'transport', suspect: 'handler', error: busy };
    expect(verdict({}, failed, { classify: () => 'dead' })).toEqual({ kind: 'release', alone: false });
  });
});
