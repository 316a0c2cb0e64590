import fc from 'fast-check';
import type { PublishFailure } from '../../../../lib/index.js';
import { OutboxMessage, type StoredMessage } from '../../../../lib/outbox-message.js';
import { OutboxError } from '../../../../lib/outbox.errors.js';
import type { RetryPolicy } from '../../../../lib/outbox.options.js';
import { backoff, type Delays } from '../../../../lib/relay/settle/backoff.js';
import { decide } from '../../../../lib/relay/settle/decide.js';

const CREATED = Date.UTC(2026, 0, 1);
const POLICY: RetryPolicy = {
  initial: 1_000,
  max: 300_000,
  backoff: 'exponential',
  jitter: 'full',
  maxAttempts: 5,
  maxAge: null,
  errorHistory: 0,
  classify: undefined,
  onDead: 'block',
};
const DELAYS: Delays = { ...POLICY, backoff: 'exponential' };
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
    const ceilings = [1, 2, 3, 4, 9, 10, 11].map((attempts) => backoff(attempts, DELAYS, 1));
    expect(ceilings).toEqual([1_000, 2_000, 4_000, 8_000, 256_000, 300_000, 300_000]);
    expect(backoff(1, DELAYS, 0)).toBe(1);
    expect(backoff(1_000_000, DELAYS, 0.999_999)).toBeLessThanOrEqual(300_000);
  });

  it('D4: any attempt from 1 to 2^31 and beyond, any policy: a whole delay from 1 to the cap, and attempts that fit the column', () => {
    const cap = 2 ** 31 - 1;
    const ms = fc.integer({ min: 1, max: cap });
    const policy = fc.record({
      initial: ms,
      max: ms,
      backoff: fc.constantFrom<Delays['backoff'][]>('exponential', 'fixed'),
      jitter: fc.constantFrom<Delays['jitter'][]>('full', 'equal', 'none'),
    });
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 }), policy, chance, (attempts, delays, random) => {
        const delay = backoff(Math.max(1, attempts), delays, random);
        expect(Number.isSafeInteger(delay)).toBe(true);
        expect(delay).toBeGreaterThanOrEqual(1);
        expect(delay).toBeLessThanOrEqual(delays.max);
        const outcome = decide(
          message({ attempts: Math.min(attempts, cap) }),
          failure({}),
          { ...POLICY, ...delays, maxAttempts: null },
          CREATED,
          random,
        );
        expect(outcome).toMatchObject({ kind: 'retry', attempts: Math.min(attempts + 1, cap) });
      }),
    );
  });

  it('has full jitter: anything from nothing to the ceiling', () => {
    const delays = Array.from({ length: 1_000 }, (_, i) => backoff(4, DELAYS, i / 1_000));
    expect(Math.min(...delays)).toBe(1);
    expect(Math.max(...delays)).toBeGreaterThan(7_900);
    expect(delays.reduce((a, b) => a + b) / 1_000).toBeCloseTo(3_996, -1);
  });

  it('has equal jitter from half of the ceiling on, or none', () => {
    const delays = (fields: Partial<Delays>): number[] =>
      [0, 0.5, 0.999_999].map((random) => backoff(4, { ...DELAYS, ...fields }, random));
    expect(delays({ jitter: 'equal' })).toEqual([4_000, 6_000, 8_000]);
    expect(delays({ jitter: 'none' })).toEqual([8_000, 8_000, 8_000]);
  });

  it('is the same after each failure where it is fixed', () => {
    const fixed = { ...DELAYS, backoff: 'fixed', jitter: 'none' } as const;
    expect([1, 2, 30, 1_000_000].map((attempts) => backoff(attempts, fixed, 0))).toEqual([1_000, 1_000, 1_000, 1_000]);
    expect(backoff(9, { ...fixed, max: 300 }, 0)).toBe(300);
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

  it('lets a function say the delay up to the longest, and tells when its answer is none', () => {
    const says = (answer: unknown) => verdict({ attempts: 2 }, {}, { backoff: () => answer as number });
    expect(says(7_000)).toEqual({ kind: 'retry', attempts: 3, delay: 7_000 });
    expect(says(1_500.4)).toMatchObject({ delay: 1_500 });
    expect(says('30s')).toMatchObject({ delay: 30_000 });
    expect(says(0)).toMatchObject({ delay: 1 });
    expect(says('1h')).toMatchObject({ delay: 300_000 });
    for (const none of [NaN, -1, Infinity, undefined, null, 'soon', {}]) {
      const refused = expect.objectContaining({
        message: expect.stringContaining('retry.backoff returned no duration'),
      });
      expect(says(none)).toEqual({ kind: 'retry', attempts: 3, delay: 2_000, refused });
    }
    expect(says(Promise.reject(new Error('it asks somebody')))).toMatchObject({
      delay: 2_000,
      refused: { message: expect.stringContaining('a Promise, which is not waited for') },
    });
  });

  it('tells a function which message failed, how often and with what, and what it throws', () => {
    const asked: unknown[][] = [];
    const boom = new Error('boom');
    const backoffOf = (...failed: unknown[]): never => {
      asked.push(failed);
      throw boom;
    };
    expect(verdict({ attempts: 2 }, { error: 'no' }, { backoff: backoffOf })).toMatchObject({
      delay: 2_000,
      refused: boom,
    });
    expect(asked).toEqual([[3, expect.objectContaining({ id: message().id }), 'no']]);
    expect(verdict({ attempts: 4 }, {}, { backoff: backoffOf })).toMatchObject({ kind: 'dead' });
    expect(asked).toHaveLength(1);
  });

  it('takes what the message brought along before what the module says', () => {
    const said = JSON.stringify({ $retry: { backoff: 'fixed', jitter: 'none' } });
    expect(verdict({ optionsJson: said, attempts: 3 }, {}, { backoff: () => 9 })).toMatchObject({ delay: 1_000 });
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
    ['{"$retry":{"backoff":"never","jitter":"half"}}', none],
    ['{"$retry":{"backoff":null,"jitter":[]}}', none],
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
