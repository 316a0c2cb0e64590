import type { HeaderValue, SerializedPayload, Serializer } from 'nestjs-outbox';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { OutboxEvent } from '../../../lib/index.js';
import { decodeHeaders } from '../../../lib/message/headers.js';
import { resolveOptions } from '../../../lib/options/resolve.js';
import { definition, messageRules, refusal } from '../../support/enqueue.js';

const BYTES = Buffer.from('bytes');
const serializerOf = (headers: SerializedPayload['headers'], names: readonly string[] = ['schema-id']): Serializer => ({
  contentType: 'avro/binary',
  headers: names,
  serialize: () => ({ bytes: BYTES, headers }),
  deserialize: () => null,
});
const rows = (message: object, serializer: Serializer, settings = {}) =>
  toMessage({ type: 'x', ...message }, settings, messageRules({ serializer }));
const headersOf = (...given: Parameters<typeof rows>) => {
  const { headers } = rows(...given)[0]!;
  return headers === null ? null : { ...decodeHeaders(headers) };
};

describe('headers of a serializer', () => {
  it('go with the message beside the caller’s', () => {
    const serializer = serializerOf({ 'schema-id': '7' });
    expect(headersOf({ payload: {} }, serializer)).toEqual({ 'schema-id': '7' });
    expect(headersOf({ payload: {}, headers: { a: 'b' } }, serializer)).toEqual({ a: 'b', 'schema-id': '7' });
    expect(headersOf({ payload: {} }, serializerOf(undefined))).toBeNull();
  });

  it('may depend on type and version', () => {
    const serializer: Serializer = {
      ...serializerOf({}),
      serialize: (_, { type, version }) => ({ bytes: BYTES, headers: { 'schema-id': `${type}-${version}` } }),
    };
    expect(headersOf({ payload: {}, version: 3 }, serializer)).toEqual({ 'schema-id': 'x-3' });
  });

  it('are set by nobody else: by no message, no option of enqueue and no class', async () => {
    const serializer = serializerOf({ 'schema-id': '7' });
    class Decorated {}
    OutboxEvent({ type: 'decorated', headers: { 'schema-id': 'CANARY' } })(Decorated);
    const headers = { 'schema-id': 'CANARY' };
    for (const [input, settings] of [
      [{ type: 'x', payload: {}, headers }, {}],
      [{ type: 'x', payload: {} }, { headers }],
      [{ type: 'x', payload: 'text', contentType: 'text/plain', headers }, {}],
      [new Decorated(), {}],
    ] as const) {
      const { code, message } = await refusal(() => toMessage(input, settings, messageRules({ serializer })));
      expect(code).toBe('INVALID_MESSAGE');
      expect(message).toMatch(
        /^(Message 'x'|Event 'decorated'): the header schema-id is set by the serializer alone\./,
      );
      expect(message).not.toContain('CANARY');
    }
  });

  it('are the caller’s where the caller gives the bytes, or none', () => {
    const serializer = serializerOf({ 'schema-id': '7' });
    for (const payload of [BYTES, null])
      expect(headersOf({ payload, headers: { 'schema-id': '6' } }, serializer)).toEqual({ 'schema-id': '6' });
    expect(headersOf({ payload: BYTES }, serializer)).toBeNull();
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['no name that it declares', { other: 'CANARY' }, /gave a header that its property `headers` does not name/],
    ['no text and no bytes', { 'schema-id': 7 }, /headers\.schema-id must be a string, a Uint8Array/],
  ])('are refused with %s', async (_, headers, expected) => {
    const { message } = await refusal(() =>
      rows({ payload: {} }, serializerOf(headers as Record<string, HeaderValue>)),
    );
    expect(message).toMatch(expected);
    expect(message).not.toContain('CANARY');
  });

  it('count for the limits of headers, the outbox’s and a transport’s', async () => {
    const serializer = serializerOf({ 'schema-id': 'x'.repeat(100) });
    const transports = new Map([['default', definition({ headerBytes: 50 })]]);
    const small = () => toMessage({ type: 'x', payload: {} }, {}, messageRules({ serializer, transports }));
    expect((await refusal(small)).message).toMatch(/headers has 109 bytes, more than the 50 of transport 'default'/);
    const large = serializerOf({ 'schema-id': 'x'.repeat(70_000) });
    expect((await refusal(() => rows({ payload: {} }, large))).message).toMatch(/headers have more than 65536 bytes/);
  });

  it('may be none at all: one that returns bytes, and takes one argument, is one as before', () => {
    const plain: Serializer = { contentType: 'x', serialize: () => BYTES, deserialize: (bytes) => bytes };
    expect(rows({ payload: {} }, plain)[0]).toMatchObject({ headers: null, payload: BYTES });
  });

  it.each([['id'], ['content-type'], ['encryption-key-id'], [''], ['é\0'], [7]])(
    'the start refuses a name that is another’s, or none: %p',
    (name) => {
      const serializer = serializerOf({}, [name as string]);
      const transports = { default: definition() };
      expect(() => resolveOptions({ transports, serializer })).toThrow(/serializer: .* headers of its own \(or none\)/);
      expect(() => resolveOptions({ transports, serializer: serializerOf({}) })).not.toThrow();
    },
  );
});
