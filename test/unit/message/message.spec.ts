import { decodeHeaders, encodeHeaders } from '../../../lib/message/headers.js';
import { compareSeq } from '../../../lib/outbox-message.js';

describe('headers in the database', () => {
  it('keeps strings, bytes, repeated values and hostile names', () => {
    const headers = { a: 'x', b: Buffer.from([0, 255]), c: ['1', Buffer.from('2')], ['__proto__']: 'p' };
    const back = decodeHeaders(encodeHeaders(headers) as string);
    expect(back['a']).toBe('x');
    expect(back['b']).toEqual(Buffer.from([0, 255]));
    expect(back['c']).toEqual(['1', Buffer.from('2')]);
    expect(Object.getPrototypeOf(back)).toBeNull();
  });

  it.each(['no JSON', '{"a":[1]}', '{"a":null}', 'null'])(
    'says what is wrong with those of another program: %s',
    (json) => {
      expect(() => decodeHeaders(json)).toThrow(
        /^The headers in the table are not a JSON object whose values are texts/,
      );
    },
  );

  it('is null when there is none', () => {
    expect(encodeHeaders({})).toBeNull();
  });
});

describe('compareSeq', () => {
  it('orders past 2^53', () => {
    expect(['9007199254740993', '10', '9', '9007199254740992'].sort(compareSeq)).toEqual([
      '9',
      '10',
      '9007199254740992',
      '9007199254740993',
    ]);
  });
});
