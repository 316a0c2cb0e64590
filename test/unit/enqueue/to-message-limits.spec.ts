import type { CheckedMessage } from '../../../lib/index.js';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { decodeHeaders } from '../../../lib/message/headers.js';
import { definition, messageRules, refusal } from '../../support/enqueue.js';

const SECRET = 'hunter2';
const one = (input: unknown, settings = {}, rules = messageRules()) => toMessage(input, settings, rules)[0]!;

describe('headers', () => {
  const headersOf = (headers: unknown): unknown => {
    const { headers: json } = one({ type: 'x', payload: 1, headers });
    return json === null ? null : { ...decodeHeaders(json) };
  };
  it('may be text, bytes, several values, and have any name', () => {
    const headers = {
      a: '',
      b: new Uint8Array([0, 255]),
      c: ['1', Buffer.from('2')],
      ['__proto__']: 'p',
      constructor: 'c',
    };
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
    [{ a: Array<string>(1001).fill('') }, /headers have more than 1000 values/],
  ])('F6: %# are refused', async (headers, expected) => {
    expect((await refusal(() => headersOf(headers))).message).toMatch(expected);
  });
});

describe('transports', () => {
  const limited = definition({
    topicBytes: 10,
    keyBytes: 5,
    payloadBytes: 20,
    headerBytes: 8,
    tombstones: false,
    checkTopic: (topic) => (topic.includes('*') ? 'it has a wildcard' : undefined),
  });
  const rules = messageRules({
    transports: new Map([
      ['main', definition()],
      ['small', limited],
    ]),
  });

  it('get one row each, with one id, in the order asked for', () => {
    const rows = toMessage({ type: 'x', payload: 1 }, { transport: ['small', 'main', 'small'] }, rules);
    expect(rows.map(({ transport }) => transport)).toEqual([1, 0]);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(1);
  });
  it('are refused when unknown, with the one that was meant', async () => {
    const { code, message } = await refusal(() => toMessage({ type: 'x', payload: 1 }, { transport: 'smal' }, rules));
    expect([code, message]).toEqual([
      'UNKNOWN_TRANSPORT',
      `Message 'x': there is no transport 'smal'. Did you mean 'small'?`,
    ]);
    expect((await refusal(() => toMessage({ type: 'x', payload: 1 }, { transport: [] }, rules))).code).toBe(
      'UNKNOWN_TRANSPORT',
    );
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
  it('F3, F6: may look at everything that a broker could refuse', async () => {
    const seen: CheckedMessage[] = [];
    const check = (message: CheckedMessage): string | undefined => (seen.push(message), 'it is a Monday');
    const strict = messageRules({ transports: new Map([['strict', definition({ check })]]) });
    const message = { type: 'x', topic: 't', key: 'k', payload: '12', headers: { a: 'b' }, options: { own: { c: 1 } } };
    const { code, message: told } = await refusal(() => toMessage(message, {}, strict));
    expect([code, told]).toEqual([
      'INVALID_MESSAGE',
      `Message 'x': transport 'strict' cannot carry it: it is a Monday.`,
    ]);
    expect(seen).toEqual([
      {
        topic: 't',
        key: 'k',
        type: 'x',
        contentType: 'application/json',
        payloadBytes: 4,
        headers: expect.objectContaining({ a: 'b' }),
        options: expect.objectContaining({ own: { c: 1 } }),
      },
    ]);
  });
  it('take what is exactly at the limit', () => {
    const message = {
      type: 'x',
      topic: 'x'.repeat(10),
      key: '12345',
      payload: Buffer.alloc(20),
      headers: { abc: '12345' },
    };
    expect(toMessage(message, { transport: 'small' }, rules)).toHaveLength(1);
  });
  it('the module limits payloads too', async () => {
    const small = messageRules({ maxPayloadBytes: 5 });
    expect(one({ type: 'x', payload: Buffer.alloc(5) }, {}, small).payload).toHaveLength(5);
    const { code, message } = await refusal(() => one({ type: 'x', payload: SECRET }, {}, small));
    expect([code, message]).toEqual([
      'PAYLOAD_TOO_LARGE',
      `Message 'x': payload has 9 bytes, more than maxPayloadBytes (5).`,
    ]);
  });
});
