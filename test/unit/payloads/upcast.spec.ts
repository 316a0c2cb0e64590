import { OutboxEvent, type OutboxEventOptions } from '../../../lib/index.js';
import { upcast } from '../../../lib/consumer/index.js';
import { refusal } from '../../support/enqueue.js';

interface V1 {
  readonly id: string;
  readonly total: number;
}
interface V2 extends V1 {
  readonly currency: string;
}

@OutboxEvent({
  type: 'order.billed',
  version: 3,
  upcast: {
    1: async (payload: V1): Promise<V2> => ({ ...payload, currency: 'EUR' }),
    2: ({ id, total, currency }: V2) => ({ id, amount: { total, currency } }),
  },
})
class OrderBilled {
  constructor(
    readonly id: string,
    readonly amount: { total: number; currency: string },
  ) {}
  toString(): string {
    return `${this.amount.total} ${this.amount.currency}`;
  }
}
const message = (version: number, payload: unknown, type = 'order.billed') => ({ type, version, payload });

describe('upcast(Class, message)', () => {
  it.each<[number, unknown]>([
    [1, { id: 'o', total: 5 }],
    [2, { id: 'o', total: 5, currency: 'EUR' }],
    [3, { id: 'o', amount: { total: 5, currency: 'EUR' } }],
  ])('makes an event of version %s', async (version, payload) => {
    const event = await upcast(OrderBilled, message(version, payload));
    expect(event).toEqual(new OrderBilled('o', { total: 5, currency: 'EUR' }));
    expect(String(event)).toBe('5 EUR');
  });

  it('leaves a tombstone what it is, in each version', async () => {
    for (const version of [1, 2, 3]) expect(await upcast(OrderBilled, message(version, null))).toBeNull();
  });

  it('gives a step what its consumers got: bytes, and members of any name', async () => {
    const seen: unknown[] = [];
    const note = (payload: unknown): object => (seen.push(payload), payload as object);
    const Bytes = declare({ version: 2, upcast: { 1: note }, revive: note });
    const bytes = Buffer.from([0, 255]);
    expect(await upcast(Bytes, { type: 'declared', version: 1, payload: bytes })).toBe(bytes);
    const hostile = JSON.parse('{"__proto__":{"admin":true},"constructor":1}') as object;
    const Spread = declare({ version: 2, upcast: { 1: (payload: object) => ({ ...payload }) } });
    const event = (await upcast(Spread, { type: 'declared', version: 1, payload: hostile })) as object;
    expect(event).toBeInstanceOf(Spread);
    expect((event as { admin?: boolean }).admin).toBeUndefined();
    expect(seen).toEqual([bytes, bytes]);
  });

  it('leads through `revive`', async () => {
    const Revived = declare({ version: 2, upcast: { 1: (n: number) => n + 1 }, revive: (n) => ({ n }) });
    expect(await upcast(Revived, { type: 'declared', version: 1, payload: 1 })).toEqual({ n: 2 });
  });

  it('fails where a step does, or returns nothing', async () => {
    const Throwing = declare({ version: 2, upcast: { 1: () => Promise.reject(new Error('no rate of that day')) } });
    await expect(upcast(Throwing, { type: 'declared', version: 1, payload: 1 })).rejects.toThrow('no rate of that day');
    const Forgetful = declare({ version: 2, upcast: { 1: () => {} } });
    const { message: text } = await refusal(() => upcast(Forgetful, { type: 'declared', version: 1, payload: 1 }));
    expect(text).toBe('The step of upcast from version 1 returned undefined.');
  });

  it.each<[number, string]>([
    [4, 'order.billed'],
    [0, 'order.billed'],
    [Number.NaN, 'order.billed'],
    [3, 'order.placed'],
  ])('refuses what the class does not take: version %s of %s', async (version, type) => {
    const { code, message: text } = await refusal(() => upcast(OrderBilled, message(version, { id: 'o' }, type)));
    expect([code, text]).toEqual(['INVALID_MESSAGE', `OrderBilled does not take '${type}' version ${version}.`]);
  });

  it('refuses a class without @OutboxEvent, also one that extends such a class', async () => {
    class Child extends OrderBilled {}
    for (const eventClass of [class Other {}, Child])
      expect((await refusal(() => upcast(eventClass, message(3, {})))).code).toBe('UNKNOWN_EVENT');
  });
});

describe('@OutboxEvent({ upcast })', () => {
  const step = (): number => 1;
  it.each<[number | undefined, unknown, string[]]>([
    [3, { 1: step }, ['upcast has no step from version 2']],
    [9, { 1: step, 4: step }, ['upcast has no step from version 2, 3, 5, 6, 7']],
    [3, { 1: step, 3: step }, ["upcast.3 is no version below 3, the event's own", 'upcast has no step from version 2']],
    [undefined, { 1: step }, ["upcast.1 is no version below 1, the event's own"]],
    [
      3,
      { '02': step, 1.5: step, first: step, 0: step, '-1': step, 2: 'x' },
      [
        'upcast.02 is no',
        'upcast.1.5 is no',
        'upcast.first is no',
        'upcast.0 is no',
        'upcast.-1 is no',
        'upcast.2 must be a function',
      ],
    ],
    [3, { 2: undefined }, ['upcast.2 must be a function']],
    [2, [step], ['upcast must be an object']],
    [2, step, ['upcast must be an object']],
    [2, null, ['upcast must be an object']],
  ])('is refused where the class is declared, with all that is wrong: %#', async (version, upcastSteps, problems) => {
    const options = { type: 'x', version, upcast: upcastSteps } as OutboxEventOptions<object>;
    const { code, message: text } = await refusal(() => OutboxEvent(options)(class Named {}));
    expect(code).toBe('INVALID_OPTIONS');
    for (const problem of problems) expect(text).toContain(problem);
  });

  it('need not begin with version 1', async () => {
    const Late = declare({ version: 3, upcast: { 2: () => ({ at: 3 }) } });
    expect(await upcast(Late, { type: 'declared', version: 2, payload: {} })).toEqual({ at: 3 });
    const { code } = await refusal(() => upcast(Late, { type: 'declared', version: 1, payload: {} }));
    expect(code).toBe('INVALID_MESSAGE');
  });
});

function declare(options: Partial<OutboxEventOptions<object>>): new () => object {
  class Declared {}
  OutboxEvent({ type: 'declared', ...options })(Declared);
  return Declared;
}
