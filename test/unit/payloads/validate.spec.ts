import * as v from 'valibot';
import { z } from 'zod';
import { OutboxEvent, type OutboxEventOptions, type StandardSchema } from '../../../lib/index.js';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { messageRules, refusal } from '../../support/enqueue.js';

const SECRET = 'hunter2-in-the-payload';
let types = 0;

/** Enqueues an event of a class with these options. @returns the payload as it is stored */
function enqueue<T extends object>(options: Partial<OutboxEventOptions<T>>, members: T, where = ''): string | null {
  class Event {}
  OutboxEvent<object>({ type: `checked.${++types}`, ...(options as Partial<OutboxEventOptions<object>>) })(Event);
  const rows = toMessage(Object.assign(new Event(), members), {}, messageRules(), where);
  const payload = rows[0]?.payload ?? null;
  return payload === null ? null : Buffer.from(payload).toString();
}
const answering = (validate: (value: unknown) => unknown): StandardSchema => ({
  '~standard': { version: 1, vendor: 'test', validate },
});
const issuesAt = (...paths: unknown[]): StandardSchema =>
  answering(() => ({ issues: paths.map((path) => ({ message: SECRET, path })) }));

/** What the error says after the event's type. */
async function said(work: () => unknown): Promise<[code: string, text: string]> {
  const { code, message, error } = await refusal(work);
  expect(`${message} ${String(error.cause)}`).not.toContain(SECRET);
  return [code, message.replace(/^(?:.*: )?Event 'checked\.\d+': its `validate` /, '')];
}
const WHY = ' What is wrong with them is not told here, as it may quote the payload: ask the schema.';

const order = { orderId: 'o-1', items: [{ sku: 'a', price: 1 }] };
const wrong = { orderId: SECRET.repeat(3), items: [{ sku: 'a', price: SECRET }, { sku: 1 }] };
const OF_ZOD = z.object({
  orderId: z.string().max(20),
  items: z.array(z.object({ sku: z.string(), price: z.number() })),
  note: z.string().default('none'),
});
const OF_VALIBOT = v.object({
  orderId: v.pipe(v.string(), v.maxLength(20)),
  items: v.array(v.object({ sku: v.string(), price: v.number() })),
  note: v.optional(v.string(), 'none'),
});

describe.each<[string, StandardSchema]>([
  ['zod', OF_ZOD],
  ['valibot', OF_VALIBOT],
])('`validate` with %s', (_, validate) => {
  it('stores what the caller gave, without what the schema makes of it', () => {
    expect(enqueue({ validate }, { ...order, more: true })).toBe(JSON.stringify({ ...order, more: true }));
  });

  it('refuses with the paths, and with nothing of the payload', async () => {
    expect(await said(() => enqueue({ validate }, wrong))).toEqual([
      'PAYLOAD_INVALID',
      `refuses payload.orderId, payload.items[0].price, payload.items[1].sku and payload.items[1].price.${WHY}`,
    ]);
  });

  it('asks about what is serialized', async () => {
    const payload = (event: { all: object }): unknown => event.all;
    expect(enqueue({ validate, payload }, { all: order })).toBe(JSON.stringify(order));
    const [, text] = await said(() => enqueue({ validate, payload: () => SECRET }, order));
    expect(text).toBe(`refuses payload.${WHY}`);
  });

  it('does not ask about a tombstone', () => {
    expect(enqueue({ validate, payload: () => null }, order)).toBeNull();
  });
});

describe('`validate` with a schema', () => {
  it('names the message of an array', async () => {
    const { message } = await refusal(() => enqueue({ validate: OF_ZOD }, wrong, 'messages[3]: '));
    expect(message).toMatch(/^messages\[3\]: Event 'checked\.\d+': its `validate` refuses payload\.orderId, /);
  });

  it('comes after the refusal of what is no payload, and cannot change what is stored', async () => {
    const asked: unknown[] = [];
    const validate = answering((value) => {
      asked.push(value);
      return { value: Object.assign(value as object, { changed: true }) };
    });
    for (const payload of [undefined, Promise.resolve(1), 1n])
      expect((await refusal(() => enqueue({ validate, payload: () => payload }, order))).code).toBe(
        'PAYLOAD_NOT_SERIALIZABLE',
      );
    expect(asked).toEqual([]);
    expect(enqueue({ validate }, { ...order })).toBe(JSON.stringify(order));
  });

  it('takes a schema that is a function, as those of ArkType are', async () => {
    const validate = Object.assign(() => [], issuesAt(['id']));
    expect((await said(() => enqueue({ validate }, order)))[1]).toMatch(/^refuses payload\.id\./);
  });

  it.each<[string, StandardSchema, string]>([
    ['of objects, numbers and symbols', issuesAt([{ key: 'a' }, 0, Symbol('b')]), 'payload.a[0].Symbol(b)'],
    [
      'of anything else',
      issuesAt([{}, null, {}, () => 1, { key: {} }], 'text', 5, null),
      'payload.?.?.?.?.? and payload',
    ],
    [
      'that are long',
      issuesAt(['x'.repeat(1_000)], Array(1_000).fill(0)),
      `payload.${'x'.repeat(40)}… and payload${'[0]'.repeat(8)}…`,
    ],
    ['that a terminal would obey', issuesAt(['\u001b[2J\n']), 'payload.\\u001b[2J\\u000a'],
    ['that repeat', issuesAt(['a'], ['a'], ['b']), 'payload.a and payload.b'],
    ['that are no issues', answering(() => ({ issues: [null, 'text', 1] })), 'payload'],
    ['of no issue', answering(() => ({ issues: [] })), 'payload'],
    ['of issues that are no array', answering(() => ({ issues: SECRET })), 'payload'],
    [
      'of 10,000 issues',
      issuesAt(...Array.from({ length: 10_000 }, (_, n) => [n])),
      `${Array.from({ length: 10 }, (_, n) => `payload[${n}]`).join(', ')} and more`,
    ],
  ])('shows paths %s', async (_, validate, paths) => {
    expect(await said(() => enqueue({ validate }, order))).toEqual(['PAYLOAD_INVALID', `refuses ${paths}.${WHY}`]);
  });

  const broken = (): never => {
    throw new Error(`cannot read ${SECRET}`);
  };
  it.each<[string, StandardSchema]>([
    ['validate', answering(broken)],
    [
      'the result',
      answering(() => ({
        get issues() {
          return broken();
        },
      })),
    ],
    [
      'an issue',
      answering(() => ({
        issues: [
          {
            get path() {
              return broken();
            },
          },
        ],
      })),
    ],
    [
      'a segment',
      issuesAt([
        {
          get key() {
            return broken();
          },
        },
      ]),
    ],
    // eslint-disable-next-line unicorn/no-thenable
    ['then', answering(() => Object.defineProperty({}, 'then', { get: broken }))],
  ])('that throws is not taken for a wrong payload: %s', async (_, validate) => {
    const member = { secret: SECRET };
    expect(await said(() => enqueue({ validate }, member))).toEqual(['INVALID_MESSAGE', 'threw.']);
    const { error } = await refusal(() => enqueue({ validate }, member));
    expect((error.cause as Error).message).toBe('cannot read ***');
  });

  it.each<[unknown, string]>([
    [undefined, 'undefined'],
    [null, 'null'],
    [true, 'a boolean'],
    [SECRET, 'a string'],
  ])('that answers with garbage is not taken for a wrong payload: %#', async (answer, name) => {
    const [code, text] = await said(() => enqueue({ validate: answering(() => answer) }, order));
    expect([code, text]).toEqual([
      'INVALID_MESSAGE',
      expect.stringContaining(`answers with ${name}. It must answer at once`),
    ]);
  });

  it('must not answer with a promise, and its rejection reaches nobody', async () => {
    const rejections: unknown[] = [];
    const note = (reason: unknown): unknown => rejections.push(reason);
    process.on('unhandledRejection', note);
    try {
      const throwing = z.object({ orderId: z.string().refine(() => broken()) }); // zod makes a rejected promise of it
      const slow = v.pipeAsync(
        v.unknown(),
        v.checkAsync(async () => true),
      );
      for (const validate of [throwing, slow, answering(async () => ({ value: 1 }))]) {
        const [code, text] = await said(() => enqueue({ validate }, order));
        expect([code, text]).toEqual(['INVALID_MESSAGE', expect.stringMatching(/^answers with a promise\. It must/)]);
      }
      await new Promise((resolve) => setImmediate(resolve));
      expect(rejections).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });
});

describe('`validate` with a function', () => {
  it('gets the event, and stores it where nothing is wrong', () => {
    const seen: unknown[] = [];
    const payload = (event: typeof order): unknown => ({ id: event.orderId });
    for (const answer of [undefined, null, []])
      expect(enqueue({ validate: (event) => (seen.push(event), answer) as never, payload }, order)).toBe(
        '{"id":"o-1"}',
      );
    expect(seen).toEqual([order, order, order]);
  });

  it('refuses by throwing; the cause is a copy that quotes nothing', async () => {
    const validate = (event: { secret: string }): void => {
      throw Object.assign(new Error(`not ${event.secret}`), { event });
    };
    expect(await said(() => enqueue({ validate }, { secret: SECRET }))).toEqual(['PAYLOAD_INVALID', 'threw.']);
    const { error } = await refusal(() => enqueue({ validate }, { secret: SECRET }));
    expect(error.cause).toMatchObject({ message: 'not ***' });
    expect(error.cause).not.toHaveProperty('event');
  });

  it.each<[unknown, string]>([
    [false, 'a boolean'],
    [true, 'a boolean'],
    [{}, 'an Object'],
    [Promise.resolve(), 'a promise'],
  ])('must answer in a way that can be understood: %#', async (answer, name) => {
    const [code, text] = await said(() => enqueue({ validate: () => answer as never }, order));
    expect([code, text]).toEqual(['INVALID_MESSAGE', expect.stringContaining(`answers with ${name}. It must`)]);
  });
});

describe('@OutboxEvent({ validate })', () => {
  it.each<[unknown, string]>([
    [undefined, 'validate is undefined; leave it out to check nothing'],
    ['schema', 'validate must be a function, or a schema with ~standard of version 1 (zod, valibot)'],
    [{}, 'validate must be a function'],
    [null, 'validate must be a function'],
    [{ '~standard': null }, 'validate must be a function'],
    [{ '~standard': { version: 2, validate: () => ({}) } }, 'validate must be a function'],
    [Object.assign(() => [], { '~standard': { version: 1 } }), 'validate must be a function'],
  ])('is refused where the class is declared: %#', async (validate, problem) => {
    const options = { type: 'x', validate } as OutboxEventOptions<object>;
    const { code, message } = await refusal(() => OutboxEvent(options)(class Named {}));
    expect([code, message]).toEqual(['INVALID_OPTIONS', expect.stringContaining(`@OutboxEvent on Named: ${problem}`)]);
  });

  it('is not inherited, and belongs to its class', () => {
    @OutboxEvent({ type: 'checked.parent', validate: () => expect(Parent).toBe('asked') })
    class Parent {}
    @OutboxEvent({ type: 'checked.child' })
    class Child extends Parent {}
    expect(toMessage(new Child(), {}, messageRules())).toHaveLength(1);
    const plain = { type: 'checked.parent', payload: {} };
    expect(toMessage(plain, {}, messageRules())).toHaveLength(1);
  });
});
