import fc from 'fast-check';
import type { OutboxMessage } from '../../../../lib/index.js';
import { KeyQueues } from '../../../../lib/relay/order/key-queues.js';
import { stored } from '../../../support/transport-relay.js';

/** The same with one array per key. */
class Model {
  /** Waiting, per key in order; the first may be unresolved. */
  readonly chains = new Map<string, OutboxMessage[]>();
  readonly out = new Set<OutboxMessage>();
  /** Keys with a bar, and the first message behind it. */
  readonly bars = new Map<string, OutboxMessage | undefined>();
}

type Step =
  | { do: 'accept'; key: string | null }
  | { do: 'take' | 'resolve' | 'cut' | 'back' | 'trim'; at: number }
  | { do: 'bar'; key: string | null }
  | { do: 'drop'; bucket: number };
const key = fc.constantFrom('a', 'b', 'c', null);
const at = fc.nat(5);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('accept' as const), key }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('take' as const), at }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('resolve' as const), at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('cut' as const, 'back' as const, 'trim' as const), at }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('bar' as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('drop' as const), bucket: fc.nat(1) }) },
);
const bucketOf = (key: string | null) => (key === 'a' ? 0 : 1);

describe('key queues', () => {
  it('keep the order of each key, with one unresolved message of it, and lose none', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
        let barred = 0;
        const queues = new KeyQueues(({ key }) => key);
        const { chains, out, bars } = new Model();
        const free = new Set<OutboxMessage>();
        const chainOf = (message: OutboxMessage): OutboxMessage[] => chains.get(message.key as string) ?? [];
        const waiting = (): number =>
          free.size + [...chains.values()].reduce((n, chain) => n + chain.filter((m) => !out.has(m)).length, 0);
        for (const each of steps) {
          if (each.do === 'accept') {
            const message = stored({ key: each.key, bucket: bucketOf(each.key) });
            if (each.key === null) free.add(message);
            else chains.set(each.key, [...(chains.get(each.key) ?? []), message]);
            if (each.key !== null && bars.has(each.key)) bars.set(each.key, bars.get(each.key) ?? message);
            queues.accept(message);
            continue;
          }
          if (each.do === 'bar') {
            if (each.key === null) continue;
            queues.bar(each.key);
            if (chains.has(each.key)) bars.set(each.key, bars.get(each.key));
            continue;
          }
          if (each.do === 'drop') {
            const dropped = queues.drop(({ bucket }) => bucket === each.bucket);
            const expected = each.bucket === 1 ? [...free] : [];
            for (const [key, chain] of chains) {
              if (bucketOf(key) !== each.bucket || out.has(chain[0] as OutboxMessage)) continue;
              expected.push(...chain);
              chains.delete(key);
              bars.delete(key);
            }
            if (each.bucket === 1) free.clear();
            expect(new Set(dropped)).toEqual(new Set(expected));
            continue;
          }
          if (each.do === 'take') {
            const message = queues.shift();
            if (message === undefined) {
              expect([...chains.values()].every(([first]) => out.has(first as OutboxMessage))).toBe(true);
              expect(free.size).toBe(0);
              continue;
            }
            expect(out.has(message)).toBe(false);
            if (message.key === null) expect(free.delete(message)).toBe(true);
            else expect(chainOf(message)[0]).toBe(message);
            out.add(message);
            continue;
          }
          const message = [...out][each.at % Math.max(1, out.size)];
          if (message === undefined) continue;
          if (each.do === 'trim') {
            const rest = message.key === null ? [] : chainOf(message).splice(1);
            if (rest.length > 0) bars.delete(message.key as string);
            expect(queues.trim(message)).toEqual(rest);
            continue;
          }
          out.delete(message);
          if (each.do === 'back') {
            if (message.key === null) free.add(message);
            queues.unshift(message);
            continue;
          }
          const rest = message.key === null ? [] : chainOf(message).slice(1);
          const hasBar = message.key !== null && bars.has(message.key);
          const ends =
            each.do === 'cut' || rest.length === 0 || (hasBar && bars.get(message.key as string) === rest[0]);
          if (each.do === 'resolve') {
            const behindBar = ends && hasBar ? rest : [];
            expect(queues.resolve(message)).toEqual(behindBar);
            if (message.key !== null && rest.length > 0) chains.set(message.key, rest);
          } else expect(queues.cut(message)).toEqual(rest);
          if (message.key !== null && ends) {
            chains.delete(message.key);
            bars.delete(message.key);
          }
          expect([...queues.bars.keys()].sort()).toEqual([...bars.keys()].sort());
          for (const name of ['a', 'b', 'c']) expect(queues.has(name)).toBe(chains.has(name));
        }
        let left = 0;
        for (let message = queues.shift(); message !== undefined; message = queues.shift()) {
          left += 1;
          barred += queues.resolve(message).length;
        }
        const stuckBehindOut = [...chains.values()].reduce(
          (n, chain) => n + (out.has(chain[0] as OutboxMessage) ? chain.length - 1 : 0),
          0,
        );
        left += barred;
        expect(left + stuckBehindOut).toBe(waiting());
      }),
      { numRuns: 400 },
    );
  });

  it('one gate for all is a global order', () => {
    const queues = new KeyQueues(() => '');
    const messages = [stored({ key: 'a' }), stored(), stored({ key: 'b' })];
    for (const message of messages) queues.accept(message);
    for (const message of messages) {
      expect(queues.shift()).toBe(message);
      expect(queues.shift()).toBeUndefined();
      queues.resolve(message);
    }
  });

  it('keeps nothing of what it gave: large payloads would stay for thousands of messages', () => {
    const queues = new KeyQueues(({ key }) => key);
    for (const key of ['a', 'b', 'c', null]) queues.accept(stored({ key }));
    const given = [queues.shift(), queues.shift()];
    expect(queues.ready.filter((message) => given.includes(message) && message !== undefined)).toEqual([]);
    expect(queues.ready.length - queues.readyFrom).toBe(2);
  });

  it('stays flat over a million messages', () => {
    const queues = new KeyQueues(() => null);
    const message = stored();
    let longest = 0;
    for (let i = 0; i < 1_000_000; i += 1) {
      queues.accept(message);
      if (i % 100 === 99) for (let n = 0; n < 100; n += 1) queues.shift();
      else if (i % 100 === 50) queues.unshift(queues.shift() as OutboxMessage);
      longest = Math.max(longest, queues.ready.length);
    }
    expect(longest).toBeLessThanOrEqual(200);
  });
});
