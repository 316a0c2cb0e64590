import fc from 'fast-check';
import type { PlainMessage } from '../../lib/index.js';

/** Any code units: NUL, lone surrogates, line breaks, emoji. */
const anyText = (maxLength: number) =>
  fc.string({
    unit: fc.oneof(
      fc.constantFrom(...NASTY),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
    ),
    maxLength,
  });
const NASTY = [
  '\0',
  '\ud800',
  '\udfff',
  '\r\n',
  '\u2028',
  '\ufeff',
  '"',
  "'",
  '\\',
  '%',
  '?',
  ':a',
  '$1',
  '{{',
  ' ',
  '💥',
  'é',
  'e\u0301',
];

const bytes = fc.uint8Array({ maxLength: 300 });
const headerText = fc.oneof({ weight: 4, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }) }, anyText(6));
const headerName = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 10 }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '__proto__',
      'constructor',
      'toString',
      'traceparent',
      'kafka_key',
      'x-delay',
      'b64',
      'Id',
    ),
  },
  { weight: 1, arbitrary: fc.oneof(fc.constantFrom('id', 'key', 'CC', '', 'a\r\nb', 'x'.repeat(256)), anyText(4)) },
);
const headerValue = fc.oneof(headerText, bytes, fc.array(fc.oneof(headerText, bytes), { minLength: 1, maxLength: 3 }));
const headers = fc.array(fc.tuple(headerName, headerValue), { maxLength: 3 }).map((entries) => {
  const map = Object.create(null) as Record<string, unknown>;
  for (const [name, value] of entries) map[name] = value;
  return map;
});

/** JSON values, with members of any name; strings of any code units, which JSON escapes. */
const value = fc.jsonValue({ stringUnit: 'binary', maxDepth: 3 } as never).filter((json) => json !== null);
const content = fc.oneof(
  { weight: 3, arbitrary: fc.record({ payload: value }) },
  { weight: 2, arbitrary: fc.record({ payload: bytes }) },
  {
    weight: 2,
    arbitrary: fc.record({
      payload: bytes,
      contentType: fc.constantFrom('image/png', 'text/plain', 'application/x-protobuf; a="b"'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      payload: anyText(40),
      contentType: fc.constantFrom('text/csv', 'text/plain; charset=utf-8'),
    }),
  },
  {
    weight: 1,
    arbitrary: value.map((json) => ({
      payload: JSON.stringify(json, null, 2),
      contentType: 'application/vnd.acme+json',
    })),
  },
  { weight: 1, arbitrary: fc.constant({ payload: null }) },
  {
    weight: 1,
    arbitrary: fc
      .integer({ min: 60_000, max: 200_000 })
      .chain((size) =>
        fc
          .constantFrom('x'.repeat(size), '💥'.repeat(size / 4), Buffer.alloc(size, 255))
          .map((payload) => ({ payload })),
      ),
  },
);
const name = fc.oneof(
  { weight: 5, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }) },
  anyText(5),
  fc.constantFrom('*', '#', '>', '.', '..', ' ', 'x'.repeat(255), '💥'.repeat(64)),
);

/** A plain message, most of which can be sent. `topic` is the test's. */
export const arbitraryMessage: fc.Arbitrary<PlainMessage> = fc
  .record(
    {
      type: name,
      key: fc.oneof(fc.constant(null), { weight: 3, arbitrary: name }),
      headers,
      version: fc.integer({ min: 1, max: 32_767 }),
      content,
    },
    { requiredKeys: ['type', 'content'] },
  )
  .map(({ content: { ...payload }, ...rest }) => ({ ...rest, ...payload }) as PlainMessage);

export const arbitraryTopic = name;
