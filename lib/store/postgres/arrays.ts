/**
 * Arrays as PostgreSQL writes them, `{1,2}`: one parameter instead of thousands, and node-postgres passes a string
 * through untouched where it would build the same text element by element.
 */
export function plainArray(items: readonly (string | number | boolean | null)[]): string {
  return `{${items.map((item) => item ?? 'null').join(',')}}`;
}

/** For texts that may hold anything. PostgreSQL has no NUL in text: callers decide before what becomes of one. */
export function textArray(items: readonly (string | null)[]): string {
  return `{${items.map((item) => (item === null ? 'null' : quoteElement(item))).join(',')}}`;
}

function quoteElement(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** Error texts come from brokers and handlers; one with a NUL must not keep its message from being parked. */
export function storableText(text: string | null): string | null {
  return text === null ? null : text.replaceAll('\0', '\uFFFD');
}
