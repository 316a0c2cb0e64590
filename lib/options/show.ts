import { redact } from '../observe/redact/error-text.js';

/** A value as it looks in code, short; never the inside of an object: options hold credentials. */
export function show(value: unknown): string {
  if (typeof value === 'string') return quote(redact(value));
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return value.name === '' ? 'a function' : `the function ${value.name}`;
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return `an object (${value.constructor?.name ?? 'no prototype'})`;
  return String(value);
}

/** Where an object or a function belongs, a text may be a key or a password. */
export function showNoText(value: unknown): string {
  return typeof value === 'string' && value !== '' ? 'a text' : show(value);
}

export const list = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ');

function quote(text: string): string {
  return `'${text.length > 60 ? `${text.slice(0, 60)}…` : text}'`;
}
