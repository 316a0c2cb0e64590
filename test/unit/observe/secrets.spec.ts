// @tier gate
import { inspect } from 'node:util';
import type { StoredMessage } from '../../../lib/outbox-message.js';
import { OutboxMessage } from '../../../lib/outbox-message.js';
import { OutboxError } from '../../../lib/outbox.errors.js';
import { errorCopy, errorText } from '../../../lib/observe/redact/error-text.js';
import { mask, MOST_TAKEN_APART } from '../../../lib/observe/redact/secrets.js';
import { contractMessage } from '../../support/publish.js';
import { cpuCost } from '../../support/cpu-cost.js';

const message = (payload: string, more: Partial<StoredMessage> = {}): OutboxMessage =>
  new OutboxMessage({ ...contractMessage({ topic: 'orders', payload, key: 'order-4711' }), ...more });
const text = (error: unknown, about: OutboxMessage): string => errorText(error, [about]);
const NOT_KEPT = 'its text may quote more of the message than can be searched, and is not kept';

describe('what an error may say of its message', () => {
  const order = message(
    JSON.stringify({
      orderId: 'order-4711',
      card: { number: '4111 1111 1111 1111', holder: 'Jane "J" Doe', pin: '1234' },
      list: ['first value', 123_456_789, 42, true, null],
    }),
    { headersJson: '{"authorization":"Bearer abcdef","raw":{"b64":"c2VjcmV0LWJ5dGVz"},"many":["some-value"]}' },
  );

  it('hides values of the payload and of the headers, not what names the message', () => {
    const said =
      'order-4711: card 4111 1111 1111 1111 of Jane "J" Doe, first value, 123456789, Bearer abcdef, secret-bytes, some-value';
    expect(text(new Error(said), order)).toBe('order-4711: card *** of ***, ***, ***, ***, ***, ***');
  });

  it('hides them in JSON, in causes and in errors of errors', () => {
    expect(text(new Error(JSON.stringify({ holder: 'Jane "J" Doe' })), order)).toBe('{"holder":"***"}');
    const twice = JSON.stringify(JSON.stringify({ holder: 'Jane "J" Doe' }));
    expect(text(new Error(twice), order)).toBe('"{\\"holder\\":\\"***\\"}"');
    expect(text(new Error('a', { cause: new Error('b first value') }), order)).toBe('a ← b ***');
    expect(text(new AggregateError([new Error('first value')], 'all'), order)).toBe('AggregateError: all [***]');
    expect(text('first value', order)).toBe('***');
  });

  it('leaves names and short values: an order that failed has failed', () => {
    const said = 'orderId, number, holder: 1234, 42, true';
    expect(text(new Error(said), order)).toBe(said);
  });

  it('leaves what is part of the message’s own names', () => {
    const about = message('["orders.eu","order-4711"]', { topic: 'shop.orders.eu' });
    expect(text(new Error('no topic shop.orders.eu for order-4711'), about)).toBe(
      'no topic shop.orders.eu for order-4711',
    );
  });

  it('takes what is no JSON word by word', () => {
    for (const more of [{ contentType: 'text/csv' }, {}])
      expect(text(new Error('bad: secret-one'), message('a;secret-one,{b', more))).toBe('bad: ***');
    expect(text(new Error('h: secret-head'), message('{}', { headersJson: '{"a":"secret-head"' }))).toBe('h: ***');
    expect(text(new Error('plain'), message('{}', { body: null }))).toBe('plain');
  });

  it('hides the longer of two values, one of which is part of the other', () => {
    expect(mask('secret-value and secret-value-2', ['secret-value', 'secret-value-2'])).toBe('*** and ***');
  });

  it('hides them also far behind what is shown of a text, before it is cut', () => {
    const long = 'canary '.repeat(5_000);
    const ends = ['amqp://user:canary@host', 'password="my canary value"', '"my canary" is not valid JSON'];
    for (const end of ends) {
      expect(text(new Error(`bad: ${long}${end}`), message(JSON.stringify(long)))).not.toContain('canary');
    }
    expect(text(new Error('x'.repeat(100_000)), message('["canary-1"]'))).toBe(`${'x'.repeat(1_023)}…`);
  });

  describe('where there is more than can be searched', () => {
    const shown = (error: unknown, about = message(JSON.stringify('x'.repeat(MOST_TAKEN_APART)))): string =>
      text(error, about);

    it('J10: names the class and the code of what others say, and keeps our own texts', () => {
      const cause = Object.assign(new TypeError('canary'), { code: 'ECONNREFUSED' });
      const failed = new OutboxError('HANDLER_FAILED', 'Failed: Mailer.send at dist/mailer.js:12:5.', { cause });
      const kept = 'OutboxError: Failed: Mailer.send at dist/mailer.js:12:5. (HANDLER_FAILED)';
      expect(shown(failed)).toBe(`${kept} ← TypeError: ${NOT_KEPT} (ECONNREFUSED)`);
      expect(shown(new AggregateError([new Error('canary'), 'canary'], 'canary'))).toBe(
        `AggregateError: ${NOT_KEPT} [${NOT_KEPT}; ${NOT_KEPT}]`,
      );
    });

    it('J10: of headers, of many messages, or of a long text with many values as well', () => {
      const headersJson = JSON.stringify({ a: 'x'.repeat(MOST_TAKEN_APART) });
      expect(shown(new Error('canary'), message('{}', { headersJson }))).toBe(NOT_KEPT);
      const quarter = message(JSON.stringify('x'.repeat(MOST_TAKEN_APART / 4)));
      expect(errorText(new Error('no'), [quarter, quarter, quarter])).toBe('no');
      expect(errorText(new Error('canary'), [quarter, quarter, quarter, quarter])).toBe(NOT_KEPT);
      const values = JSON.stringify(Array.from({ length: 2_000 }, (_, i) => `the value ${i}`));
      expect(shown(new Error('canary '.repeat(16_000)), message(values))).toBe(NOT_KEPT);
      expect(shown(new Error('no '.repeat(300)), message(values))).toMatch(/^no no/);
    });

    it('J10: is not taken apart', () => {
      const parse = jest.spyOn(JSON, 'parse');
      expect(shown(new Error('refused'))).toBe(NOT_KEPT);
      expect(parse).not.toHaveBeenCalled();
      parse.mockRestore();
    });

    it('J10: up to there it costs about as much as to parse it, however hostile the text is', () => {
      const payload = JSON.stringify(Array.from({ length: 300_000 }, (_, i) => i.toString(36).padStart(8, 'z')));
      const about = message(payload);
      const parsing = cpuCost(() => JSON.parse(payload) as unknown);
      for (const said of ['refused', 'zzzz'.repeat(4_000)]) {
        expect(cpuCost(() => text(new Error(said), about))).toBeLessThan(40 * parsing);
      }
    }, 900_000);
  });

  it('hides what is in several messages, and in what is none yet, whose getters it leaves alone', () => {
    const said = 'value one, value two, some bytes, 12345678901';
    expect(mask(said, [message('"value one"'), message('"value two"')])).toBe('***, ***, some bytes, 12345678901');
    const circle: Record<string, unknown> = { bytes: Buffer.from('some bytes'), big: 12_345_678_901n };
    circle['self'] = circle;
    Object.defineProperty(circle, 'getter', {
      enumerable: true,
      get: () => {
        throw new Error('never called');
      },
    });
    expect(mask(said, [circle])).toBe('value one, value two, ***, ***');
  });
});

describe('an error that leaves as an object', () => {
  const about = message(JSON.stringify({ street: '12 Long Street\n12345 Town', secret: 'top secret' }));
  const of = (properties: object): Error => Object.assign(new Error('a'), properties);
  const street = '12 Long Street\n12345 Town';

  it.each<[string, unknown]>([
    ['its text', new Error('a top secret')],
    ['its cause', new Error('a', { cause: new Error(street) })],
    ['one of several errors', new AggregateError([new Error(street), new Error('b')], 'a')],
    ['a property', of({ config: { deep: [new Map([['key', 'top secret']])], [Symbol('b')]: street } })],
    ['a property that no loop sees', Object.defineProperty(new Error('a'), 'hidden', { value: [street] })],
    ['the stack', Object.defineProperty(new Error('a'), 'stack', { value: street })],
    ['a place of the stack', Object.defineProperty(new Error('a'), 'stack', { value: 'a\n    at top secret' })],
    ['what it says of itself', of({ toJSON: () => street })],
    ['a code that is an object', of({ code: { street } })],
    ['a thrown text', 'a top secret'],
  ])('is a copy without the secret in %s', (_, error) => {
    const copy = errorCopy(error, [about]);
    expect(inspect(copy, { depth: 9, showHidden: true }) + JSON.stringify(copy)).not.toMatch(/top secret|Long Street/);
  });

  it('has its text, its code and its place', () => {
    const copy = errorCopy(Object.assign(new TypeError('fine'), { code: 'E1', request: {} }), [about]);
    expect(copy).toMatchObject({ message: 'TypeError: fine (E1)', code: 'E1' });
    expect(Object.keys(copy)).toEqual(['code']);
    expect(copy.stack).toMatch(/^Error: TypeError: fine \(E1\)\n {4}at .*secrets\.spec\.ts/);
  });

  it('is a sentence when it cannot be read', () => {
    const hostile = new Proxy(new Error('top secret'), {
      get: () => {
        throw new Error('no');
      },
    });
    expect(errorCopy(hostile, [about]).message).toBe('an error that cannot be read');
  });
});
