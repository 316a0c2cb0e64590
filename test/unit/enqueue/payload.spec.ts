import fc from 'fast-check';
import type { Serializer } from '../../../lib/index.js';
import { encodePayload } from '../../../lib/enqueue/payload.js';
import { jsonSerializer } from '../../../lib/message/json-serializer.js';
import { refusal } from '../../support/enqueue.js';

const encoding = (payload: unknown, contentType?: string, serializer: Serializer = jsonSerializer) =>
  encodePayload({ subject: `Event 'x'`, type: 'x', version: 1, payload, contentType }, serializer);
const encode = (payload: unknown, contentType?: string, serializer: Serializer = jsonSerializer) => {
  const { bytes, contentType: type } = encoding(payload, contentType, serializer);
  return [bytes === null ? null : Buffer.from(bytes).toString('utf8'), type];
};
const problemOf = async (payload: unknown, contentType?: string): Promise<string> => {
  const { code, message } = await refusal(() => encode(payload, contentType));
  expect(code).toBe('PAYLOAD_NOT_SERIALIZABLE');
  return message;
};

describe('a payload', () => {
  it('is JSON by default, exactly as JSON.stringify writes it', () => {
    const payload = { b: 1, a: [true, null, 'ü'], date: new Date(0), left: undefined, nested: { '': -1.5e300 } };
    expect(encode(payload)).toEqual([JSON.stringify(payload), 'application/json']);
    for (const plain of ['text', 0, false, '', [], {}]) expect(encode(plain)[0]).toBe(JSON.stringify(plain));
  });

  it('survives the round trip for every JSON value and every Unicode string', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false, stringUnit: 'binary' } as never), (value) => {
        const bytes = jsonSerializer.serialize(value);
        expect(Buffer.from(bytes).toString('utf8')).toBe(JSON.stringify(value));
        expect(jsonSerializer.deserialize(bytes)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('as bytes passes untouched, without a copy', () => {
    const bytes = new Uint8Array([0, 1, 255, 128]).subarray(1);
    const encoded = encoding(bytes);
    expect(encoded.contentType).toBe('application/octet-stream');
    expect([...(encoded.bytes as Buffer)]).toEqual([1, 255, 128]);
    expect(encoded.bytes?.buffer).toBe(bytes.buffer);
    expect(encoding(bytes, 'image/png').contentType).toBe('image/png');
    expect(encode(new Uint8Array())[0]).toBe('');
  });

  it('as a string with a content type is that text', () => {
    expect(encode('a,b\0', 'text/csv')).toEqual(['a,b\0', 'text/csv']);
    expect(encode('{"a": 1}', 'application/json')).toEqual(['{"a": 1}', 'application/json']);
    expect(encode({ a: 1 }, 'application/vnd.acme+json')).toEqual(['{"a":1}', 'application/vnd.acme+json']);
  });

  it('as null is a tombstone', () => {
    expect(encode(null)).toEqual([null, 'application/json']);
  });

  it('K4: as a promise is refused, whatever the serializer', async () => {
    const lax: Serializer = { ...jsonSerializer, serialize: (payload) => Buffer.from(JSON.stringify(payload)) };
    const { message } = await refusal(() => encode(Promise.resolve({ id: 1 }), undefined, lax));
    expect(message).toContain('payload is a Promise; await it');
  });

  it('goes through another serializer', () => {
    const upper: Serializer = {
      contentType: 'text/x-upper',
      serialize: (value) => Buffer.from(String(value).toUpperCase()),
      deserialize: (bytes) => String(bytes),
    };
    expect(encode('abc', undefined, upper)).toEqual(['ABC', 'text/x-upper']);
  });

  it('a serializer that throws or returns something else is reported, with the text of its error as the cause', async () => {
    const broken = (serialize: () => never) =>
      refusal(() => encode({}, undefined, { contentType: 'x', serialize, deserialize: () => 0 }));
    const thrown = await broken(() => {
      throw new TypeError('x');
    });
    expect(thrown.error.cause).toMatchObject({ message: 'TypeError: x' });
    const wrong = await broken(() => 'text' as never);
    expect(wrong.message).toMatch(/the serializer returned a string, not a Uint8Array/);
  });
});

function withToJson(value: object): object {
  return Object.assign(value, { toJSON: () => 'a' });
}

describe('F4: a payload that JSON would change in silence', () => {
  const circular: Record<string, unknown> = { a: {} };
  (circular['a'] as Record<string, unknown>)['back'] = circular;
  class OnlyGetters {
    get total(): number {
      return 1;
    }
  }
  it.each<[unknown, string]>([
    [undefined, 'payload is undefined; null is a tombstone'],
    [{ a: { n: Number.NaN } }, 'payload.a.n is NaN'],
    [[1, Number.POSITIVE_INFINITY], 'payload[1] is Infinity'],
    [{ a: 10n }, 'payload.a is a BigInt; use a string'],
    [{ list: [{ x: 1 }, { x: () => 1 }] }, 'payload.list[1].x is a function'],
    [{ s: Symbol('x') }, 'payload.s is a symbol'],
    [[1, undefined], 'payload[1] is undefined'],
    // eslint-disable-next-line no-sparse-arrays
    [[1, , 2], 'payload[1] is undefined'],
    [{ m: new Map([[1, 2]]) }, 'payload.m is a Map; use an object or an array'],
    [{ m: new Set([1]) }, 'payload.m is a Set; use an array'],
    [{ w: new WeakMap() }, 'payload.w is a weak collection'],
    [{ e: new Error('x') }, 'payload.e is an Error; its message and stack would be dropped'],
    [{ p: Promise.resolve(1) }, 'payload.p is a Promise; await it'],
    [{ r: /x/ }, 'payload.r is a RegExp'],
    [{ d: new Date(Number.NaN) }, 'payload.d is an invalid Date'],
    [{ b: Buffer.from('x') }, 'payload.b holds bytes; encode them, for example in base64'],
    [{ b: new Float32Array(1) }, 'payload.b holds bytes; encode them, for example in base64'],
    [{ b: new ArrayBuffer(1) }, 'payload.b holds bytes; encode them, for example in base64'],
    [{ toJSON: () => undefined }, 'payload is undefined'],
    [{ a: { toJSON: () => ({ deep: Number.NaN }) } }, 'payload.a.deep is NaN'],
    [{ a: Object.assign([1], { toJSON: () => [1, Number.NaN] }) }, 'payload.a[1] is NaN'],
    // JSON calls toJSON once, and writes the members of what it returned.
    [
      { a: { toJSON: () => new Date(0) } },
      'payload.a is a Date that toJSON() returned, and JSON sees nothing of it; return a string',
    ],
    [
      { a: { toJSON: () => withToJson(new Error('x')) } },
      'payload.a is an Error; its message and stack would be dropped',
    ],
    [{ a: { toJSON: () => withToJson({}) } }, 'payload.a.toJSON is a function'],
    [{ a: { toJSON: () => Object(Number.NaN) as unknown } }, 'payload.a is NaN'],
    [{ a: { toJSON: () => Buffer.from('x') } }, 'payload.a holds bytes; encode them, for example in base64'],
    [new OnlyGetters(), 'payload has only getters, which JSON does not see; add toJSON() or the option `payload`'],
    [
      { a: { b: new OnlyGetters() } },
      'payload.a.b has only getters, which JSON does not see; add toJSON() or the option `payload`',
    ],
    [{ q: new URLSearchParams('a=1') }, 'payload.q is iterable, and JSON sees nothing of it; use an array'],
    [{ g: [1].values() }, 'payload.g is iterable, and JSON sees nothing of it; use an array'],
    [{ n: Object(Number.NaN) as unknown }, 'payload.n is NaN'],
    [{ n: Object(1n) as unknown }, 'payload.n is a BigInt; use a string'],
    [circular, 'payload.a.back.a.back.a.back.a.back… is circular, or nested deeper than 500 levels'],
  ])('%# is refused, naming the place', async (payload, expected) => {
    expect(await problemOf(payload)).toBe(`Event 'x': ${expected}.`);
  });

  it.each<[unknown, string, RegExp]>([
    ['{', 'application/json', /no valid JSON/],
    ['{"a":1} x', 'application/cloudevents+json; charset=utf-8', /no valid JSON/],
    ['\ud800', 'text/plain', /lone surrogate/],
    [{ a: 1 }, 'text/plain', /must be a string or bytes/],
  ])('text %# is refused', async (payload, contentType, expected) => {
    expect(await problemOf(payload, contentType)).toMatch(expected);
  });

  class Failure extends Error {}
  it.each<[string, unknown, unknown, RegExp]>([
    ['an Error with a toJSON of its own', withToJson(new Error('a')), new Error('b'), /payload.x is an Error/],
    ['a Promise with one', withToJson(Promise.resolve()), Promise.resolve(), /payload.x is a Promise/],
    ['a Map with one', withToJson(new Map()), new Map([[1, 2]]), /payload.x is a Map/],
    [
      'an object with the prototype of an Error',
      Object.create(Failure.prototype),
      new Failure('b'),
      /payload.x is an Error/,
    ],
  ])('%s speaks for itself only', async (_, first, second, expected) => {
    expect(await problemOf({ x: second })).toMatch(expected);
    for (let again = 0; again < 2; again++) {
      encode({ x: first });
      expect(await problemOf({ x: second })).toMatch(expected);
    }
  });

  it('boxed values and classes without content are what JSON makes of them', () => {
    class Empty {}
    expect(encode({ n: Object(5) as unknown, s: Object('') as unknown, e: new Empty() })[0]).toBe(
      '{"n":5,"s":"","e":{}}',
    );
  });

  it('what toJSON makes of an object is what counts', () => {
    class Self {
      readonly a = 1;
      toJSON(): this {
        return this;
      }
    }
    class Hidden {
      readonly error = new Error('x');
      toJSON(): object {
        return { self: new Self(), boxed: Object(5) as unknown };
      }
    }
    const payload = { hidden: new Hidden(), list: withToJson([Number.NaN]), date: new Date(0) };
    for (let again = 0; again < 2; again++)
      expect(encode(payload)[0]).toBe(
        '{"hidden":{"self":{"a":1},"boxed":5},"list":"a","date":"1970-01-01T00:00:00.000Z"}',
      );
  });

  it('may be deep', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 400; i++) deep = [deep];
    expect(encode(deep)[0]).toBe(JSON.stringify(deep));
  });
});
