/**
 * Names and values, of this or another realm. Not what keeps them elsewhere than in fields of its own, which would be lost without
 * a word: a Map, the Headers of a fetch, the promise of an async function.
 */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
