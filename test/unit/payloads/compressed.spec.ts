import { gunzipSync, gzipSync } from 'node:zlib';
import { compressed, type SerializedPayload, type Serializer } from 'nestjs-outbox';
import { refusal } from '../../support/enqueue.js';

const EVENT = { type: 'order.placed', version: 2 };
const GZIP = { 'content-encoding': 'gzip' };
const textOf = (bytes: number): string => 'order '.repeat(bytes).slice(0, bytes);
/** What it says of each call, and a header of its own. */
const spy = (calls: unknown[] = [], headers?: readonly string[]): Serializer => ({
  contentType: 'text/x-order',
  headers,
  serialize(payload, event) {
    calls.push(event);
    const bytes = Buffer.from(String(payload));
    return headers === undefined ? bytes : { bytes, headers: { [headers[0] as string]: '7' } };
  },
  deserialize(bytes, message) {
    calls.push(message);
    return Buffer.from(bytes).toString();
  },
});

describe('compressed()', () => {
  it('compresses what has more bytes than `above`, and says so in a header', () => {
    const serializer = compressed(spy(), { above: 100 });
    expect(serializer.serialize(textOf(100), EVENT)).toEqual(Buffer.from(textOf(100)));
    const { bytes, headers } = serializer.serialize(textOf(101), EVENT) as SerializedPayload;
    expect(headers).toEqual(GZIP);
    expect(gunzipSync(bytes).toString()).toBe(textOf(101));
    expect(serializer).toMatchObject({ contentType: 'text/x-order', headers: ['content-encoding'] });
    expect(serializer.deserialize(bytes, { ...EVENT, headers: GZIP })).toBe(textOf(101));
    expect(serializer.deserialize(Buffer.from('plain'), { ...EVENT, headers: {} })).toBe('plain');
  });

  it('leaves what gzip does not make smaller', () => {
    const noise = Array.from({ length: 60 }, (_, n) => String.fromCharCode(33 + ((n * 53) % 90))).join('');
    expect(compressed(spy(), { above: 0 }).serialize(noise, EVENT)).toEqual(Buffer.from(noise));
    expect(compressed(spy(), { above: 0 }).serialize('', EVENT)).toEqual(Buffer.alloc(0));
  });

  it('is JSON by default, and refuses what JSON refuses', async () => {
    const serializer = compressed();
    const order = { id: textOf(5_000) };
    const { bytes } = serializer.serialize(order, EVENT) as SerializedPayload;
    expect(serializer.contentType).toBe('application/json');
    expect(serializer.deserialize(bytes, { ...EVENT, headers: GZIP })).toEqual(order);
    expect((await refusal(() => serializer.serialize({ n: Number.NaN }, EVENT))).message).toBe('payload.n is NaN.');
  });

  it('keeps the headers of the serializer inside, which is told of event and message', () => {
    const calls: unknown[] = [];
    const serializer = compressed(spy(calls, ['schema-id']), { above: 10 });
    expect(serializer.headers).toEqual(['schema-id', 'content-encoding']);
    expect(serializer.serialize('short', EVENT)).toMatchObject({ headers: { 'schema-id': '7' } });
    const { bytes, headers = {} } = serializer.serialize(textOf(100), EVENT) as SerializedPayload;
    expect(headers).toEqual({ 'schema-id': '7', ...GZIP });
    serializer.deserialize(bytes, { ...EVENT, headers });
    expect(calls).toEqual([EVENT, EVENT, { ...EVENT, headers }]);
  });

  it.each(['GZIP', Buffer.from('gzip')])('reads the header however it is written: %p', (value) => {
    const message = { ...EVENT, headers: { 'content-encoding': value } };
    expect(compressed(spy()).deserialize(gzipSync('text'), message)).toBe('text');
  });

  it.each([
    ['text', Buffer.from('{"a":1}')],
    ['nothing', Buffer.alloc(0)],
    ['half of it', gzipSync(textOf(2_000)).subarray(0, 30)],
    ['a damaged end', Buffer.concat([gzipSync('text').subarray(0, -8), Buffer.alloc(8, 1)])],
  ])('a payload that is labelled gzip and is %s is told, without a byte of it', async (_, bytes) => {
    const message = { ...EVENT, headers: GZIP };
    const { code, error } = await refusal(() => compressed().deserialize(bytes, message));
    expect([code, error.message, error.cause]).toEqual([
      ...['INVALID_MESSAGE', 'The payload is labelled gzip, and is none or is cut.', undefined],
    ]);
  });

  it('decompresses to maxBytes and no further, and compresses nothing that is larger', async () => {
    const serializer = compressed(spy(), { maxBytes: 2_000 });
    const read = (bytes: number) => serializer.deserialize(gzipSync(textOf(bytes)), { ...EVENT, headers: GZIP });
    expect(read(2_000)).toHaveLength(2_000);
    const bomb = Buffer.concat(Array.from({ length: 10 }, () => gzipSync(Buffer.alloc(10_000_000))));
    for (const bytes of [gzipSync(textOf(2_001)), bomb]) {
      const refused = await refusal(() => serializer.deserialize(bytes, { ...EVENT, headers: GZIP }));
      expect(refused.message).toBe('The payload has more than 2000 bytes when it is decompressed.');
    }
    const small = compressed(spy(), { above: 1_000, maxBytes: 2_000 });
    expect(small.serialize(textOf(2_000), EVENT)).toHaveProperty('bytes');
    expect(await refusal(() => small.serialize(textOf(2_001), EVENT))).toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      message: 'payload has 2001 bytes before it is compressed, more than maxBytes of compressed() (2000).',
    });
  });

  it.each<[unknown[], RegExp]>([
    [[undefined, { above: -1 }], /^compressed\(\): above must be a whole number from 0 to 134217728\.$/],
    [[undefined, { maxBytes: 1 }], /maxBytes must be a whole number from 1024/],
    [[undefined, { level: 9 }], /level is no option/],
    [[undefined, 4096], /options are 4096; must be an object/],
    [[compressed()], /the serializer has the header content-encoding already/],
  ])('%# is refused', async (given, expected) => {
    const { code, message } = await refusal(() => (compressed as (...all: unknown[]) => Serializer)(...given));
    expect(code).toBe('INVALID_OPTIONS');
    expect(message).toMatch(expected);
  });
});
