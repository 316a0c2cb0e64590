// @tier gate
import { get } from 'node:http';
import { inspect } from 'node:util';
import type { StoredMessage } from '../../../lib/outbox-message.js';
import { OutboxMessage } from '../../../lib/outbox-message.js';
import { errorText, withoutSecrets } from '../../../lib/observe/redact/error-text.js';
import { mask, secretsIn, secretsOf } from '../../../lib/observe/redact/secrets.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { cpuCost } from '../../support/cpu-cost.js';

const message = (payload: string, more: Partial<StoredMessage> = {}): OutboxMessage =>
  new OutboxMessage({ ...contractMessage({ topic: 'orders', payload, key: 'order-4711' }), ...more });
const text = (error: unknown, about: OutboxMessage): string => errorText(error, [about]);

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
    expect(mask('secret-value and secret-value-2', new Set(['secret-value', 'secret-value-2']))).toBe('*** and ***');
  });

  it('hides those that reach past what is read of a long text', () => {
    const values = Array.from({ length: 60 }, (_, i) => `${i} canary `.repeat(30 + i));
    const about = message(JSON.stringify(values));
    const all = values.join('|');
    for (let shift = 0; shift < 600; shift += 7) {
      const said = text(new Error(`${'-'.repeat(shift)}${all}`), about);
      expect(said).toMatch(/^-*\*{3}(\|\*{3})+/);
      expect(said).not.toContain('canary');
    }
    expect(text(new Error(`bad: ${'canary '.repeat(5_000)}`), message(JSON.stringify('canary '.repeat(5_000))))).toBe(
      'bad: …',
    );
    const overlapping = 'a'.repeat(50_000);
    expect(text(new Error(`bad: ${overlapping}`), message(JSON.stringify(['aaaaaaaa', 'aaaaaaaaa'])))).toBe('bad: …');
  });

  it('hides what only its end tells from other text, where that is past what is read', () => {
    const value = 'one value '.repeat(1_000);
    for (const end of ['amqp://user:canary@host', 'password="my canary value"', '"my canary" is not valid JSON'])
      for (let shift = 0; shift < 40; shift += 1) {
        const before = `${value}${'-'.repeat(16_384 - value.length - shift)}`;
        const about = message(JSON.stringify([value, '-'.repeat(6_000)]));
        expect(text(new Error(`${before}${end} and so on`), about)).not.toContain('canary');
      }
  });

  it('searches a long text for none of them beyond what is read', () => {
    const values = Array.from({ length: 2_500 }, (_, i) => `the value ${i}`);
    const about = message(JSON.stringify(values));
    const cost = (length: number): number => {
      const error = new Error('a text of anything else '.repeat(length / 24));
      return cpuCost(() => text(error, about));
    };
    expect(cost(4_000_000)).toBeLessThan(10 * cost(16_000));
  });

  describe('a payload that is too large to be taken apart', () => {
    const canary = 'canary "of" Jane\\ \n Doe';
    const many = Array.from({ length: 700_000 }, (_, i) => i.toString(36).padStart(8, 'z'));
    const large = (payload: unknown, more: Partial<StoredMessage> = {}) => message(JSON.stringify(payload), more);
    const about = large([...many.slice(0, 50_000), canary, 'straße-ü-9', 4_111_111_111_111_111, ...many.slice(50_000)]);

    it.each([canary, JSON.stringify(canary), JSON.stringify(JSON.stringify(canary)), 'straße-ü-9', '4111111111111111'])(
      'J10: is quoted by nothing: %s',
      (quoted) => {
        const said = text(new Error(`bad value ${quoted} in orders`), about);
        expect(said).toMatch(/^bad value \W{0,8}\*{3}\W{0,8} in orders$/);
        expect(said).not.toMatch(/canary|Jane|straße|4111/);
        const shown = withoutSecrets(Object.assign(new Error('x'), { body: quoted }), secretsOf([about]));
        expect(inspect(shown)).not.toMatch(/canary|Jane|straße|4111/);
      },
    );

    it('J10: leaves what names the message, and what the payload does not have', () => {
      const named = large([...many, 'order-4711'], { topic: 'zzzzzzz1' });
      expect(text(new Error('refused by the broker: order-4711 zzzzzzz1'), named)).toBe(
        'refused by the broker: order-4711 zzzzzzz1',
      );
      const error = Object.assign(new Error('refused by the broker'), { code: 406 });
      expect(withoutSecrets(error, secretsOf([named]))).toBe(error);
    });

    it('J10: is never taken apart', () => {
      const parse = jest.spyOn(JSON, 'parse');
      text(new Error('refused by the broker'), about);
      expect(parse.mock.calls.filter(([body]) => body === about.body)).toEqual([]);
      parse.mockRestore();
    });

    it('J10: costs some passes over it at most, however hostile the text is, and once for each text', () => {
      let n = 0;
      const cost = (more: string) => cpuCost(() => text(new Error(`refused ${(n += 1)} ${more}`), about));
      cost(''); // compiled
      const pass = cost('');
      expect(cost('zzzz'.repeat(4_000))).toBeLessThan(20 * pass); // each of 16,000 places with each of 1.4 M: thousands
      const known = new Error('refused by the broker');
      text(known, about);
      expect(cpuCost(() => text(known, about))).toBeLessThan(pass / 10);
    }, 900_000);

    it('J10: of more than can be compared nothing is told', () => {
      const huge = message(JSON.stringify('x'.repeat(9_000_000)));
      expect(text(new Error('refused by the broker'), huge)).toBe(
        'an error that may quote more than can be looked through (not shown)',
      );
    });
  });

  it('knows the secrets of several messages, and of what is none yet', () => {
    expect([...secretsOf([message('"value one"'), message('"value two"')])]).toEqual(['value one', 'value two']);
    const circle: Record<string, unknown> = { bytes: Buffer.from('some bytes'), big: 12_345_678_901n };
    circle['self'] = circle;
    Object.defineProperty(circle, 'getter', {
      enumerable: true,
      get: () => {
        throw new Error('never called');
      },
    });
    expect([...secretsIn(circle)]).toEqual(['some bytes', '12345678901']);
  });
});

describe('an error that is shown as an object', () => {
  const secrets = new Set(['top secret']);

  it('is itself when it holds nothing', () => {
    const error = new TypeError('fine', { cause: { a: 1 } });
    expect(withoutSecrets(error, secrets)).toBe(error);
    expect(withoutSecrets('fine', secrets)).toBe('fine');
  });

  it.each([
    new Error('a top secret'),
    new Error('a', { cause: new Error('top secret') }),
    Object.assign(new Error('a'), { config: { deep: ['top secret'] } }),
    'a top secret',
  ])('is a copy with the place and without the secret: %#', (error) => {
    const copy = withoutSecrets(error, secrets) as Error;
    expect(copy).toBeInstanceOf(Error);
    expect(inspect(copy, { depth: 9 })).not.toContain('top secret');
    if (error instanceof Error) expect(copy.stack).toContain('secrets.spec.ts');
  });

  it('is a sentence when it cannot be looked into', () => {
    const hostile = new Proxy(new Error('top secret'), {
      get: () => {
        throw new Error('no');
      },
    });
    expect(inspect(withoutSecrets(hostile, secrets))).not.toContain('top secret');
  });

  const street = '12 Long Street\n12345 Town';
  const pem = `-----BEGIN KEY-----\n${'abcd'.repeat(40)}\n-----END KEY-----`;
  const payload = { holder: 'Jane "J" Doe', street, pem };
  const of = (properties: object): Error => Object.assign(new Error('a'), properties);
  const nested = (depth: number): object => (depth === 0 ? { pem } : { next: nested(depth - 1) });
  const circular: Record<string, unknown> = { list: [new Map([['key', new Set([street])]])] };
  circular['self'] = circular;
  class Opaque {
    readonly #secret = street;
    toJSON(): unknown {
      return { secret: this.#secret };
    }
  }

  it.each<[string, unknown]>([
    ['several lines in a cause', new Error('a', { cause: new Error(`no such street: ${street}`) })],
    ['several lines in one of several errors', new AggregateError([new Error(pem), new Error('b')], 'a')],
    ['quotes in JSON', of({ config: { data: JSON.stringify(payload) } })],
    ['quotes in JSON in JSON', of({ body: JSON.stringify({ data: JSON.stringify({ holder: payload.holder }) }) })],
    ['a long text', of({ value: pem })],
    ['a long text in a list', of({ values: ['b', [pem]] })],
    ['bytes', of({ input: Buffer.from(JSON.stringify(payload)) })],
    ['a buffer of bytes', of({ input: new Uint8Array(Buffer.from(street)).buffer })],
    ['the depth', of({ deep: nested(50) })],
    ['maps, sets and circles', of({ circular })],
    ['a key', of({ [street]: 1 })],
    ['a symbol', of({ [Symbol('b')]: street })],
    ['the stack', Object.defineProperty(new Error('a'), 'stack', { value: street })],
    ['a property that no loop sees', Object.defineProperty(new Error('a'), 'hidden', { value: [street] })],
    ['a message of the class', new (class extends Error { override get message() { return street; } })()], // prettier-ignore
    ['a getter', of({ config: { get data() { return street; } } })], // prettier-ignore
    ['what it says of itself', of({ opaque: new Opaque() })],
    ['a URL', of({ url: new URL('https://host/?holder=9876543210') })],
    ['what a promise holds', of({ promise: Promise.resolve({ pem }) })],
    ['a number', of({ amounts: [9_876_543_210, 9_876_543_210n] })],
    ['text that is an object', of({ text: Object(street) as unknown })],
    ['no error', { street }],
  ])('is a copy when they stand in %s', (_, error) => {
    const copy = withoutSecrets(error, secretsIn({ ...payload, number: 9_876_543_210 })) as Error;
    expect(copy).not.toBe(error);
    expect(Object.keys(copy)).toEqual([]);
    expect(copy.message + (copy.stack as string)).not.toMatch(/Long Street|abcd|Jane|9876543210/);
  });

  it('is a copy when a getter throws, or when it is more than can be looked at', () => {
    const biting = { get data(): never { throw new Error('no'); } }; // prettier-ignore
    const endless = (): object => new Proxy({}, { ownKeys: () => ['a'], getOwnPropertyDescriptor: () => ({ configurable: true, enumerable: true, value: endless() }) }); // prettier-ignore
    for (const value of [biting, { list: Array.from({ length: 1_000_000 }, (_, i) => i) }, endless()]) {
      const copy = withoutSecrets(of({ value }), secrets) as Error;
      expect([copy.message, Object.keys(copy)]).toEqual(['a', []]);
    }
  });

  it('is itself with all that clients attach, and starts nothing that only a getter would start', async () => {
    let loaded = 0;
    const lazy = Object.defineProperty({}, 'relation', { get: () => (loaded += 1), enumerable: false });
    const request = get({ host: '127.0.0.1', port: 1 });
    const error = await new Promise<Error>((resolve) => request.on('error', resolve));
    Object.assign(error, { request, lazy, config: { env: { Blob, URL }, at: new Date(), pattern: /a/, none: null } });
    expect(withoutSecrets(error, secrets)).toBe(error);
    expect(loaded).toBe(0);
  });
});
