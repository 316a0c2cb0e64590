import type { MessageSettings } from '../../../lib/index.js';
import { OutboxEvent } from '../../../lib/enqueue/events/outbox-event.decorator.js';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import { decodeHeaders } from '../../../lib/message/headers.js';
import type { NewMessage } from '../../../lib/outbox-message.js';
import { definition, messageRules, refusal } from '../../support/enqueue.js';

const ID = '01931d2f-0a5b-7c3d-8e4f-0123456789ab';
const SECRET = 'hunter2';

@OutboxEvent({
  type: 'order.placed',
  topic: 'orders',
  key: (e) => e.orderId,
  headers: (e) => ({ tenant: e.tenant }),
  version: 2,
  options: { kafka: { partition: 1, timestamp: 5 } },
  retry: { initial: '2s', max: '1m', maxAttempts: null, maxAge: '1d' },
  onDead: 'skip',
})
class OrderPlaced {
  constructor(
    readonly orderId: string | null,
    readonly tenant = 't',
  ) {}
}

const one = (input: unknown, settings: MessageSettings = {}, rules = messageRules()): NewMessage => {
  const rows = toMessage(input, settings, rules);
  expect(rows).toHaveLength(1);
  return rows[0] as NewMessage;
};
const text = (message: NewMessage): string => Buffer.from(message.payload as Uint8Array).toString();

describe('an event', () => {
  it('becomes a row with everything its class says', () => {
    const row = one(new OrderPlaced('o-1', 'acme'));
    expect(row).toMatchObject({
      transport: 0,
      bucket: bucketOf('o-1', 32),
      topic: 'orders',
      key: 'o-1',
      type: 'order.placed',
      version: 2,
      contentType: 'application/json',
      delay: null,
      deliverAt: null,
      dedupKey: null,
    });
    expect(text(row)).toBe('{"orderId":"o-1","tenant":"acme"}');
    expect({ ...decodeHeaders(row.headers as string) }).toEqual({ tenant: 'acme' });
  });

  it('stores its retry policy in milliseconds, for workers without the class', () => {
    expect(JSON.parse(one(new OrderPlaced('o')).options as string)).toEqual({
      kafka: { partition: 1, timestamp: 5 },
      $retry: { initial: 2_000, max: 60_000, maxAttempts: null, maxAge: 86_400_000, onDead: 'skip' },
    });
  });

  it('lets the caller overrule key, headers and options', () => {
    const settings = { key: 'k', headers: { tenant: 'x', more: 'y' }, options: { kafka: { partition: 9 }, own: 1 } };
    const row = one(new OrderPlaced('o'), settings);
    expect(row.key).toBe('k');
    expect({ ...decodeHeaders(row.headers as string) }).toEqual({ tenant: 'x', more: 'y' });
    expect(JSON.parse(row.options as string)).toMatchObject({ kafka: { partition: 9, timestamp: 5 }, own: 1 });
  });

  it('is unordered with a null key, and gets its bucket from its id', () => {
    const row = one(new OrderPlaced(null));
    expect(row.key).toBeNull();
    expect(row.bucket).toBe(bucketOf(row.id, 32));
  });

  it.each([undefined, ''])('is refused with the key %j', async (key) => {
    const { code } = await refusal(() => one(new OrderPlaced(key as string)));
    expect(code).toBe('KEY_MISSING');
    expect((await refusal(() => one(new OrderPlaced('o'), { key: key as string }))).code).toBe('KEY_MISSING');
    expect((await refusal(() => one({ type: 'x', key, payload: 1 }))).code).toBe('KEY_MISSING');
  });

  it('takes payload from the option, from toJSON, and from inherited fields', () => {
    class Base {
      readonly base = 1;
    }
    @OutboxEvent({ type: 'a', payload: (e) => ({ wrapped: e.value }) })
    class A {
      readonly value = 5;
    }
    @OutboxEvent({ type: 'b', key: (e) => e.computed })
    class B extends Base {
      get computed(): string {
        return `k${this.base}`;
      }
      toJSON(): unknown {
        return { from: 'toJSON' };
      }
    }
    @OutboxEvent({ type: 'c' })
    class C extends Base {
      readonly own = 2;
    }
    expect(text(one(new A()))).toBe('{"wrapped":5}');
    expect(text(one(new B()))).toBe('{"from":"toJSON"}');
    expect(one(new B()).key).toBe('k1');
    expect(text(one(new C()))).toBe('{"base":1,"own":2}');
  });

  it('is refused where a function is async: what it promises would be lost', async () => {
    const later = (() => Promise.resolve({ a: 'b' })) as unknown as () => Record<string, never>;
    @OutboxEvent({ type: 'a', headers: later })
    class A {}
    @OutboxEvent({ type: 'b', options: later })
    class B {}
    expect(await refusal(() => one(new A()))).toMatchObject({
      message: expect.stringMatching(/headers .* not a Promise/),
    });
    expect(await refusal(() => one(new B()))).toMatchObject({
      message: expect.stringMatching(/options .* not a Promise/),
    });
  });

  it('names the function that threw, with its cause', async () => {
    @OutboxEvent({ type: 'a', key: (e) => (e.customer as { id: string }).id })
    class A {
      readonly customer: unknown = undefined;
    }
    const { code, message, error } = await refusal(() => one(new A()));
    expect([code, message]).toEqual(['INVALID_MESSAGE', `Event 'a': its function \`key\` threw.`]);
    expect(error.cause).toMatchObject({ message: expect.stringMatching(/^TypeError: Cannot read properties/) });
  });
});

describe('a plain message', () => {
  it('needs only type and payload', () => {
    const row = one({ type: 'x', payload: { a: 1 } });
    expect(row).toMatchObject({ type: 'x', topic: 'x', key: null, version: 1, headers: null, options: null });
  });

  it('carries its own settings; those of the call come first', () => {
    const message = { type: 'x', payload: 1, id: ID, delay: '1m', transport: 'b', key: 'own' } as const;
    const rules = messageRules({
      transports: new Map([
        ['a', definition()],
        ['b', definition()],
      ]),
    });
    expect(one(message, {}, rules)).toMatchObject({ id: ID, delay: 60_000, deliverAt: null, transport: 1, key: 'own' });
    const deliverAt = new Date(5);
    expect(one(message, { deliverAt, transport: 'a', key: null }, rules)).toMatchObject({
      delay: null,
      deliverAt,
      transport: 0,
      key: null,
    });
  });

  it('waits for whole milliseconds: what is computed may have a fraction, and is not published before its time', () => {
    expect(one({ type: 'x', payload: 1, delay: 33.7 }).delay).toBe(34);
    expect(one({ type: 'x', payload: 1, delay: 0.2 }).delay).toBe(1);
  });

  it('keeps a copy of deliverAt: callers may change theirs before it is stored', () => {
    const deliverAt = new Date(5);
    for (const row of [one({ type: 'x', payload: 1 }, { deliverAt }), one({ type: 'x', payload: 1, deliverAt })]) {
      expect(row.deliverAt).toEqual(deliverAt);
      expect(row.deliverAt).not.toBe(deliverAt);
    }
  });

  it('may come from another realm or have no prototype', () => {
    expect(one(structuredClone({ type: 'x', payload: 1 })).type).toBe('x');
    expect(one(Object.assign(Object.create(null), { type: 'x', payload: 1 })).type).toBe('x');
  });

  it.each([
    [{ topik: 'x', type: 'x', payload: 1 }, /unknown field 'topik'. Did you mean 'topic'\?/],
    [{ payload: 1 }, /^Message: type must be a string, not undefined/],
    [{ type: '', payload: 1 }, /^Message: type is empty/],
    [{ type: 'x'.repeat(256), payload: 1 }, /type has 256 characters, more than 255/],
    [{ type: 'x', topic: 'x'.repeat(256), payload: 1 }, /topic has 256 characters/],
    [{ type: 'x', topic: '', payload: 1 }, /topic is empty/],
    [{ type: 'x', topic: undefined, payload: 1 }, /topic is undefined; leave it out to publish to the type/],
    [{ type: 'x\0', payload: 1 }, /type contains a NUL/],
    [{ type: 'x', topic: 'a\0', payload: 1 }, /topic contains a NUL/],
    [{ type: 'x', topic: '\ud800', payload: 1 }, /topic contains a lone surrogate/],
    [{ type: 'x', key: 'a\0', payload: 1 }, /key contains a NUL/],
    [{ type: 'x', key: 'ü'.repeat(128), payload: 1 }, /key has 256 bytes, more than 255/],
    [{ type: 'x', key: 5, payload: 1 }, /key must be a string, not a number/],
    [{ type: 'x', version: 1.5, payload: 1 }, /version must be a whole number/],
    [{ type: 'x', version: 40_000, payload: 1 }, /version must be a whole number/],
    [{ type: 'x', contentType: '', payload: 1 }, /contentType is empty/],
    [{ type: 'x', payload: 1, headers: ['a'] }, /headers must be a plain object .*, not an array/],
    [{ type: 'x', payload: 1, headers: new Map([['a', 'b']]) }, /headers must be a plain object .*, not a Map/],
    [{ type: 'x', payload: 1, headers: new Headers({ a: 'b' }) }, /headers must be a plain object .*, not a Headers/],
    [{ type: 'x', payload: 1, options: 5 }, /options must be a plain object, not a number/],
    [{ type: 'x', payload: 1, options: new Map([['kafka', {}]]) }, /options must be a plain object, not a Map/],
    [{ type: 'x', payload: 1, options: { own: new Map([['a', 1]]) } }, /options.own is /],
    [{ type: 'x', payload: 1, options: { $retry: {} } }, /options.\$retry: names that begin with \$ are reserved/],
    [{ type: 'x', payload: 1, options: { kafka: { partition: Number.NaN } } }, /options.kafka.partition is NaN/],
    [{ type: 'x', payload: 1, options: { own: 'x'.repeat(20_000) } }, /options have more than 16384 bytes/],
    [{ type: 'x', payload: 1, deliverAt: new Date(Number.NaN) }, /deliverAt must be a valid Date/],
    [{ type: 'x', payload: 1, deliverAt: '2026-01-01' }, /deliverAt must be a valid Date/],
    [{ type: 'x', payload: 1, delay: '5 minutes' }, /delay must be a duration/],
    [{ type: 'x', payload: 1, delay: -1 }, /delay must be a duration/],
    [{ type: 'x', payload: 1, delay: -0.3 }, /delay must be a duration/],
    [{ type: 'x', payload: 1, delay: Number.NaN }, /delay must be a duration/],
    [{ type: 'x', payload: 1, delay: Infinity }, /delay must be a duration/],
    [{ type: 'x', payload: 1, delay: 1, deliverAt: new Date() }, /deliverAt and delay cannot be given together/],
    [{ type: 'x', payload: 1, id: ID, dedupKey: 'k' }, /id and dedupKey cannot be given together/],
    [{ type: 'x', payload: 1, dedupKey: '' }, /dedupKey is empty/],
    [{ type: 'x', payload: 1, dedupKey: 'x'.repeat(251) }, /dedupKey has 251 bytes/],
    [null, /null is no message/],
    ['x', /a string is no message/],
    [OrderPlaced, /a function is no message. Enqueue an instance/],
  ])('%# is refused with a clear error', async (message, expected) => {
    const refused = await refusal(() => one(message));
    expect(refused.code).toBe('INVALID_MESSAGE');
    expect(refused.message).toMatch(expected);
  });

  it('takes the longest that fits', () => {
    const row = one({
      type: '🛒'.repeat(255),
      topic: 'x'.repeat(255),
      key: 'x'.repeat(255),
      payload: 1,
      dedupKey: 'x'.repeat(250),
    });
    expect(row.dedupKey).toBe(`key:${'x'.repeat(250)}`);
    expect([...row.type]).toHaveLength(255);
  });
});

describe('ids and dedup keys', () => {
  it("takes the caller's version 7, in lower case, and remembers it", () => {
    expect(one({ type: 'x', payload: 1 }, { id: ID.toUpperCase() })).toMatchObject({ id: ID, dedupKey: `id:${ID}` });
  });
  it('keeps a dedup key apart from an id of the same text', () => {
    expect(one({ type: 'x', payload: 1 }, { dedupKey: ID }).dedupKey).toBe(`key:${ID}`);
  });
  it('refuses other versions, from the caller and from a generator', async () => {
    const v4 = '01931d2f-0a5b-4c3d-8e4f-0123456789ab';
    expect((await refusal(() => one({ type: 'x', payload: 1 }, { id: v4 }))).message).toMatch(/id is no RFC 9562/);
    const rules = messageRules({ idGenerator: () => v4 });
    expect((await refusal(() => one({ type: 'x', payload: 1 }, {}, rules))).message).toMatch(/idGenerator returned no/);
  });
  it('uses the generator of the options', () => {
    expect(one({ type: 'x', payload: 1 }, {}, messageRules({ idGenerator: () => ID })).id).toBe(ID);
  });
});

describe('ordering', () => {
  it('global puts everything in bucket 0', () => {
    const rules = messageRules({ ordering: 'global' });
    const buckets = ['a', 'b', 'c', null].map((key) => one({ type: 'x', key, payload: 1 }, {}, rules).bucket);
    expect(buckets).toEqual([0, 0, 0, 0]);
  });
});

describe('errors', () => {
  it('never contain payload, key or header', async () => {
    const bad: unknown[] = [
      { type: 'x', payload: { [SECRET]: undefined, a: 1n, b: SECRET } },
      { type: 'x', payload: `{"a":${SECRET}`, contentType: 'application/json' },
      { type: 'x', payload: SECRET.repeat(10), key: `${SECRET}\0` },
      { type: 'x', payload: 1, headers: { a: `${SECRET}\0` } },
      { type: 'x', payload: 1, id: SECRET },
      { type: 'x', payload: 1, dedupKey: `${SECRET}\0` },
    ];
    for (const message of bad) {
      const { error } = await refusal(() => one(message));
      expect(`${error.message} ${String(error.hint)} ${String(error.cause)} ${error.stack}`).not.toContain(SECRET);
    }
  });
});
