/** Characters of topic, type and content type: the columns are varchar(255). */
export const MAX_CHARACTERS = 255;
/** Bytes of a key in UTF-8: the column is binary-exact, varbinary(255) on MySQL. */
export const MAX_KEY_BYTES = 255;
/** Bytes of a caller's dedup key; four more are spent on the prefix that keeps it apart from ids. */
export const MAX_DEDUP_KEY_BYTES = 250;
/** The column is a 16-bit integer. */
export const MAX_VERSION = 32_767;

/** Of one that is given as `undefined`: a setting that is not there would send everything to the type's name. */
export const NO_TOPIC = 'is undefined; leave it out to publish to the type';

/** What makes a text unfit for a column, or `undefined`. Never contains the text. */
export function textProblem(field: string, text: unknown, maxBytes?: number): string | undefined {
  if (typeof text !== 'string') return `${field} must be a string, not ${typeName(text)}`;
  if (text === '') return `${field} is empty`;
  if (maxBytes === undefined) {
    // Code units are an upper bound of characters, and nearly always the number itself.
    const characters = text.length > MAX_CHARACTERS ? [...text].length : 0;
    if (characters > MAX_CHARACTERS) return `${field} has ${characters} characters, more than ${MAX_CHARACTERS}`;
  } else if (text.length * 3 > maxBytes) {
    const bytes = Buffer.byteLength(text);
    if (bytes > maxBytes) return `${field} has ${bytes} bytes, more than ${maxBytes}`;
  }
  return encodingProblem(field, text);
}

/** PostgreSQL text holds no NUL; UTF-8 holds no lone surrogate: it would become U+FFFD without a word. */
export function encodingProblem(field: string, text: string): string | undefined {
  if (text.includes('\0')) return `${field} contains a NUL character`;
  if (!isWellFormed(text)) return `${field} contains a lone surrogate, which UTF-8 cannot hold`;
  return undefined;
}

/** ES2024, in Node since 20; TypeScript's ES2023 library does not know it. */
export function isWellFormed(text: string): boolean {
  return (text as unknown as { isWellFormed(): boolean }).isWellFormed();
}

export function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  const name = typeof value === 'object' ? (value.constructor as Function | undefined)?.name || 'object' : typeof value;
  return value === undefined ? 'undefined' : `${/^[aeio]/i.test(name) ? 'an' : 'a'} ${name}`;
}
