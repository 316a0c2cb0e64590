import { OutboxError } from '../../outbox.errors.js';
import { withoutCredentials, withoutShapes } from './credentials.js';
import { printable } from './printable.js';
import { mask } from './secrets.js';

/** Longest error text that is stored or logged, in code points. */
export const MAX_ERROR_TEXT = 1024;
/** Characters that are looked at. */
const MOST_READ = MAX_ERROR_TEXT * 16;
/** Levels of `cause` and members of an AggregateError that are named. */
const MAX_DEPTH = 3;
const UNREADABLE = 'an error that cannot be read';
const NOT_KEPT = 'its text may quote more of the message than can be searched, and is not kept';

/**
 * The gate for each error that leaves as a text: in a log, an event or `last_error`. Name, code and message, and those of its causes.
 * Never a stack or any other property (`query`, `parameters`, `config` hold payloads and credentials); user info of URLs
 * is removed; lone surrogates too, as no database takes them. Ends of lines become a space, other control characters an
 * escape.
 *
 * @param about messages, or anything else, that the error may quote: what it quotes becomes `***`. Where there is more than can be
 * searched, only this library's own texts are kept
 */
export function errorText(error: unknown, about: readonly unknown[] = []): string {
  try {
    const text = describe(error);
    if (about.length === 0) return clip(redact(text));
    return clip(redact(mask(text, about) ?? describe(error, (one) => one instanceof OutboxError)));
  } catch {
    return UNREADABLE;
  }
}

/**
 * The same for one that leaves as an object, to a listener or a caller: a copy that has its text, its code and its place, as any other
 * property may hold the message.
 */
export function errorCopy(error: unknown, about: readonly unknown[]): Error {
  const text = errorText(error, about);
  const copy = new Error(text);
  copy.stack = `Error: ${text}`;
  try {
    const { code, stack } = Object(error) as { code?: unknown; stack?: string };
    if (typeof code === 'string' || typeof code === 'number') Object.assign(copy, { code });
    const places = stack?.match(/(?:\n {4}at [^\n]*)+$/)?.[0] ?? '';
    copy.stack += mask(places, about) ?? '';
  } catch {
    // One that cannot be read has no place.
  }
  return copy;
}

/** Removes what looks like a credential by its shape or by the name before it, and what JSON.parse quotes. */
export function redact(text: string): string {
  return withoutCredentials(withoutShapes(withoutJson(text.slice(0, MOST_READ))));
}

const NO_JSON = ' is not valid JSON';

/** From the first quote to the last before these words. Not by a pattern, which looks from each quote to the end. */
function withoutJson(text: string): string {
  const last = Math.max(text.lastIndexOf(`"${NO_JSON}`), text.lastIndexOf(`"...${NO_JSON}`));
  const first = text.indexOf('"');
  if (first === -1 || first >= last) return text;
  const from = text.endsWith('...', first) ? first - 3 : first;
  return `${text.slice(0, from)}this${text.slice(text.indexOf(NO_JSON, last))}`;
}

/** @param keeps whether the text of this error is said; else only its name and code */
function describe(error: unknown, keeps: (one: unknown) => boolean = () => true, depth = 0): string {
  if (typeof error !== 'object' || error === null) return keeps(error) ? String(error) : NOT_KEPT;
  const { name, message, code, cause, errors } = error as Record<string, unknown>;
  const label = typeof name === 'string' && name !== 'Error' ? name : '';
  const text = typeof message !== 'string' ? '' : keeps(error) ? message : NOT_KEPT;
  const coded =
    (typeof code === 'string' || typeof code === 'number') && !text.includes(String(code)) ? ` (${code})` : '';
  const all = [label, text].filter((part) => part !== '').join(': ') + coded || 'Error';
  if (depth >= MAX_DEPTH) return all;
  const next = (one: unknown): string => describe(one, keeps, depth + 1);
  if (Array.isArray(errors) && errors.length > 0) return `${all} [${errors.slice(0, MAX_DEPTH).map(next).join('; ')}]`;
  return all + describeCause(text, cause, depth + 1, keeps);
}

/** Wrappers often repeat what they wrap: that is left out, but not what is behind it. */
function describeCause(text: string, cause: unknown, depth: number, keeps: (one: unknown) => boolean): string {
  if (cause === undefined || cause === null || depth > MAX_DEPTH) return '';
  if (!repeats(text, cause)) return ` ← ${describe(cause, keeps, depth)}`;
  return describeCause(text, (cause as { cause?: unknown }).cause, depth + 1, keeps);
}

/** As a whole or at its end. Anywhere else a short text is there by accident, as an `x` is in "Outbox". */
function repeats(text: string, cause: unknown): boolean {
  const { message } = cause as { message?: unknown };
  return typeof message === 'string' && message !== '' && (text === message || text.endsWith(`: ${message}`));
}

function clip(text: string): string {
  const oneLine = text.replace(/\p{Surrogate}/gu, '\ufffd').replace(/[\t-\r\u0085\u2028\u2029]+/g, ' ');
  const clean = printable(oneLine.trim());
  const points = Array.from(clean);
  return points.length <= MAX_ERROR_TEXT ? clean : `${points.slice(0, MAX_ERROR_TEXT - 1).join('')}…`;
}
