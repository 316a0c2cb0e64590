import { OutboxEvent } from '../../lib/enqueue/outbox-event.decorator.js';
import { toMessage } from '../../lib/enqueue/to-message.js';
import type { MessageSettings } from '../../lib/enqueue/enqueue-options.js';
import { bucketOf } from '../../lib/enqueue/bucket-of.js';
import { decodeHeaders } from '../../lib/header-codec.js';
import type { NewMessage } from '../../lib/message.js';
import { definition, messageRules, refusal } from '../support/enqueue.js';

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

  it('names the function that threw, with its cause', async () => {
    @OutboxEvent({ type: 'a', key: (e) => (e.customer as { id: string }).id })
    class A {
      readonly customer: unknown = undefined;
    }
    const { code, message, error } = await refusal(() => one(new A()));
    expect([code, message]).toEqual(['INVALID_MESSAGE', `Event 'a': its function \`key\` threw.`]);
    expect(error.cause).toBeInstanceOf(TypeError);
  });
});

describe('a plain message', () => {
  it('needs only type and payload', () => {
    const row = one({ type: 'x', payload: { a: 1 } });
    expect(row).toMatchObject({ type: 'x', topic: 'x', key: null, version: 1, headers: null, options: null });
  });

  it('carries its own settings; those of the call come first', () => {
    const message = { type: 'x', payload: 1, id: ID, delay: '1m', transport: 'b', key: 'own' } as const;
    const rules = messageRules({ transports: new Map([['a', definition()], ['b', definition()]]) });
    expect(one(message, {}, rules)).toMatchObject({ id: ID, delay: 60_000, deliverAt: null, transport: 1, key: 'own' });
    const deliverAt = new Date(5);
    expect(one(message, { deliverAt, transport: 'a', key: null }, rules)).toMatchObject({
      delay: null, deliverAt, transport: 0, key: null,
    });
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
    [{ type: 'x\0', payload: 1 }, /type contains a NUL/],
    [{ type: 'x', topic: 'a\0', payload: 1 }, /topic contains a NUL/],
    [{ type: 'x', topic: '\ud800', payload: 1 }, /topic contains a lone surrogate/],
    [{ type: 'x', key: 'a\0', payload: 1 }, /key contains a NUL/],
    [{ type: 'x', key: 'ü'.repeat(128), payload: 1 }, /key has 256 bytes, more than 255/],
    [{ type: 'x', key: 5, payload: 1 }, /key must be a string, not a number/],
    [{ type: 'x', version: 1.5, payload: 1 }, /version must be a whole number/],
    [{ type: 'x', version: 40_000, payload: 1 }, /version must be a whole number/],
    [{ type: 'x', contentType: '', payload: 1 }, /contentType is empty/],
    [{ type: 'x', payload: 1, headers: ['a'] }, /headers must be an object/],
    [{ type: 'x', payload: 1, options: 5 }, /options must be an object/],
    [{ type: 'x', payload: 1, options: { $retry: {} } }, /options.\$retry: names that begin with \$ are reserved/],
    [{ type: 'x', payload: 1, options: { kafka: { partition: Number.NaN } } }, /options.kafka.partition is NaN/],
    [{ type: 'x', payload: 1, options: { own: 'x'.repeat(20_000) } }, /options have more than 16384 bytes/],
    [{ type: 'x', payload: 1, deliverAt: new Date(Number.NaN) }, /deliverAt must be a valid Date/],
    [{ type: 'x', payload: 1, deliverAt: '2026-01-01' }, /deliverAt must be a valid Date/],
    [{ type: 'x', payload: 1, delay: '5 minutes' }, /delay must be a duration/],
    [{ type: 'x', payload: 1, delay: -1 }, /delay must be a duration/],
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
    const row = one({ type: '🛒'.repeat(255), topic: 'x'.repeat(255), key: 'x'.repeat(255), payload: 1, dedupKey: 'x'.repeat(250) });
    expect(row.dedupKey).toBe(`key:${'x'.repeat(250)}`);
    expect([...row.type]).toHaveLength(255);
  });
});

describe('headers', () => {
  const headersOf = (headers: unknown): unknown => {
    const { headers: json } = one({ type: 'x', payload: 1, headers });
    return json === null ? null : { ...decodeHeaders(json) };
  };
  it('may be text, bytes, several values, and have any name', () => {
    const headers = { a: '', b: new Uint8Array([0, 255]), c: ['1', Buffer.from('2')], ['__proto__']: 'p', constructor: 'c' };
    const json = one({ type: 'x', payload: 1, headers }).headers as string;
    const back = decodeHeaders(json);
    expect(Object.keys(back)).toEqual(['a', 'b', 'c', '__proto__', 'constructor']);
    expect(back['__proto__']).toBe('p');
    expect(({} as Record<string, unknown>)['p']).toBeUndefined();
    expect(headersOf({})).toBeNull();
  });
  it.each([
    [{ a: 5 }, /headers.a must be a string, a Uint8Array or an array of those, not a number/],
    [{ a: undefined }, /headers.a must be .* not undefined/],
    [{ a: ['x', null] }, /headers.a\[1\] must be .* not null/],
    [{ a: [] }, /headers.a is an empty array/],
    [{ a: 'x\0' }, /headers.a contains a NUL/],
    [{ a: '\udfff' }, /headers.a contains a lone surrogate/],
    [{ '': 'x' }, /a header name is empty/],
    [{ 'a\r\nb': 'x' }, /a header name contains a control character/],
    [{ ['x'.repeat(256)]: 'x' }, /a header name has more than 255 bytes/],
    [{ a: 'x'.repeat(40_000), b: 'x'.repeat(40_000) }, /headers have more than 65536 bytes/],
  ])('%# are refused', async (headers, expected) => {
    expect((await refusal(() => headersOf(headers))).message).toMatch(expected);
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

describe('transports', () => {
  const limited = definition({
    topicBytes: 10, keyBytes: 5, payloadBytes: 20, headerBytes: 8, tombstones: false,
    checkTopic: (topic) => (topic.includes('*') ? 'it has a wildcard' : undefined),
  });
  const rules = messageRules({ transports: new Map([['main', definition()], ['small', limited]]) });

  it('get one row each, with one id, in the order asked for', () => {
    const rows = toMessage({ type: 'x', payload: 1 }, { transport: ['small', 'main', 'small'] }, rules);
    expect(rows.map(({ transport }) => transport)).toEqual([1, 0]);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(1);
  });
  it('are refused when unknown, with the one that was meant', async () => {
    const { code, message } = await refusal(() => toMessage({ type: 'x', payload: 1 }, { transport: 'smal' }, rules));
    expect([code, message]).toEqual(['UNKNOWN_TRANSPORT', `Message 'x': there is no transport 'smal'. Did you mean 'small'?`]);
    expect((await refusal(() => toMessage({ type: 'x', payload: 1 }, { transport: [] }, rules))).code).toBe('UNKNOWN_TRANSPORT');
  });
  it.each([
    [{ topic: 'x'.repeat(11) }, 'INVALID_MESSAGE', /topic has 11 bytes, more than the 10 of transport 'small'/],
    [{ key: 'x'.repeat(6) }, 'INVALID_MESSAGE', /key has 6 bytes, more than the 5/],
    [{ payload: Buffer.alloc(21) }, 'PAYLOAD_TOO_LARGE', /payload has 21 bytes, more than the 20 of transport 'small'/],
    [{ headers: { abc: '123456' } }, 'INVALID_MESSAGE', /headers has 9 bytes, more than the 8/],
    [{ payload: null }, 'INVALID_MESSAGE', /payload is null, but transport 'small' has no tombstones/],
    [{ topic: 'a.*' }, 'INVALID_MESSAGE', /topic is refused by transport 'small': it has a wildcard/],
  ])('%# have limits, checked also when another transport has none', async (part, code, expected) => {
    const message = { type: 'x', payload: 1, ...part };
    const refused = await refusal(() => toMessage(message, { transport: ['main', 'small'] }, rules));
    expect(refused.code).toBe(code);
    expect(refused.message).toMatch(expected);
    expect(toMessage(message, {}, rules)).toHaveLength(1);
  });
  it('take what is exactly at the limit', () => {
    const message = { type: 'x', topic: 'x'.repeat(10), key: '12345', payload: Buffer.alloc(20), headers: { abc: '12345' } };
    expect(toMessage(message, { transport: 'small' }, rules)).toHaveLength(1);
  });
  it('the module limits payloads too', async () => {
    const small = messageRules({ maxPayloadBytes: 5 });
    expect(one({ type: 'x', payload: Buffer.alloc(5) }, {}, small).payload).toHaveLength(5);
    const { code, message } = await refusal(() => one({ type: 'x', payload: SECRET }, {}, small));
    expect([code, message]).toEqual(['PAYLOAD_TOO_LARGE', `Message 'x': payload has 9 bytes, more than maxPayloadBytes (5).`]);
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
