import type { OutboxMessage } from '../../../../lib/index.js';
import { LateSuccesses } from '../../../../lib/relay/row-lock/late-successes.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { contractMessage } from '../../../../lib/testing/transport-contract/contract-message.js';

const message = (id: string): OutboxMessage =>
  Object.assign(contractMessage({ topic: 't', payload: '{}' }), { id }) as OutboxMessage;

describe('dead messages that got through all the same, under row locks', () => {
  const begin = (answers: Record<string, Error>) => {
    const clock = new FakeClock();
    const asked: string[] = [];
    const told: unknown[][] = [];
    const settle = (_: number, [{ id } = { id: '' }]: { id: string }[]): Promise<object> => {
      asked.push(id);
      const error = answers[id];
      return error === undefined ? Promise.resolve({ affected: 1 }) : Promise.reject(error);
    };
    const hooks = { emit: (...event: unknown[]) => void told.push(event), has: () => true };
    const deps = {
      store: { ready: { settle } },
      id: 1,
      name: 'local',
      options: { onPublished: 'delete' },
      clock,
      hooks,
    };
    const late = new LateSuccesses(deps as never);
    for (const id of ['a', 'b', 'c']) late.add(message(id));
    const errors = (): unknown[] => told.filter(([name]) => name === 'error').map(([, event]) => event);
    return { late, clock, asked, errors, answers };
  };

  it('K9: are written one by one, past one that the database refuses', async () => {
    const refusal = Object.assign(new Error('refused'), { code: '23514' });
    const { late, asked, errors } = begin({ b: refusal });
    expect(await late.settle()).toBe(2);
    expect(asked).toEqual(['a', 'b', 'c']);
    expect(errors()).toEqual([{ operation: 'settle', error: refusal, retryIn: null }]);
    expect(await late.settle()).toBe(0);
    expect(asked).toHaveLength(3); // it stays dead
  });

  it('K9: wait longer and longer for one that somebody else has locked, and keep no turn waiting meanwhile', async () => {
    const { late, clock, asked, errors, answers } = begin({
      b: Object.assign(new Error('lock timeout'), { code: '55P03' }),
    });
    expect(await late.settle()).toBe(1);
    expect(await late.settle()).toBe(0);
    expect(asked).toEqual(['a', 'b']);
    await clock.advance(1_000);
    await late.settle();
    expect(errors().map((event) => (event as { retryIn: number }).retryIn)).toEqual([1_000, 2_000]);
    await clock.advance(1_999);
    await late.settle();
    expect(asked).toEqual(['a', 'b', 'b']);
    delete answers['b'];
    await clock.advance(1);
    expect(await late.settle()).toBe(2);
    expect(asked).toEqual(['a', 'b', 'b', 'b', 'c']);
  });
});
