import type { OutboxMessage } from '../message.js';
import { mask, quotes, secretsOf } from './secrets.js';

/** Longest error text that is stored or logged, in code points. */
export const MAX_ERROR_TEXT = 1024;
/** Levels of `cause` and members of an AggregateError that are named. */
const MAX_DEPTH = 3;

/**
 * What may be said about an error in a log, an event or `last_error`: name, code and message, and those of its causes.
 * Never a stack or any other property (`query`, `parameters`, `config` hold payloads and credentials); user info of URLs
 * is removed; control characters and lone surrogates too, as no database takes all of them.
 *
 * @param about messages whose payloads and headers the error may quote: what it quotes becomes `***`
 */
export function errorText(error: unknown, about: readonly OutboxMessage[] = []): string {
  try {
    const text = describe(error, 0);
    return clip(redact(about.length === 0 ? text : mask(text, secretsOf(about))));
  } catch {
    return 'an error that cannot be read';
  }
}

/** The error itself, unless its text quotes one of these messages: then an error with the text that may be told. */
export function unquoted(error: unknown, about: readonly OutboxMessage[]): unknown {
  const text = errorText(error, about);
  return text === errorText(error)
    ? error
    : Object.assign(new Error(text), { code: (error as { code?: unknown } | null | undefined)?.code });
}

/** The error itself, or, when anything in it quotes a secret, a copy that has its text and its place, and nothing else. */
export function withoutSecrets(error: unknown, secrets: ReadonlySet<string>): unknown {
  try {
    if (!quotes(error, secrets)) return error;
  } catch {
    // Whoever cannot be looked into must not be shown either.
  }
  let text = 'an error that cannot be read';
  let places = '';
  try {
    text = clip(redact(mask(describe(error, 0), secrets)));
    places = (error as Error).stack?.match(/(?:\n {4}at [^\n]*)+$/)?.[0] ?? '';
  } catch {
    // as above
  }
  const copy = new Error(text);
  copy.stack = `Error: ${text}${mask(places, secrets)}`;
  return copy;
}

/** Removes the user and the password of every URL, what looks like a password elsewhere, and what JSON.parse quotes. */
export function redact(text: string): string {
  return text
    .slice(0, MAX_ERROR_TEXT * 16)
    .replace(/(?:\.\.\.)?"[^]*"(?:\.\.\.)? is not valid JSON/g, 'this is not valid JSON')
    .replace(/\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/?#]*@/gi, '$1***@')
    .replace(
      /\b(passw(?:or)?d|pwd|secret|token|api[-_]?key|authorization)(["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&)}]+)/gi,
      '$1$2***',
    );
}

function describe(error: unknown, depth: number): string {
  if (typeof error !== 'object' || error === null) return String(error);
  const { name, message, code, cause, errors } = error as Record<string, unknown>;
  const label = typeof name === 'string' && name !== 'Error' ? name : '';
  const coded =
    (typeof code === 'string' || typeof code === 'number') && !String(message).includes(String(code))
      ? ` (${code})`
      : '';
  const text = typeof message === 'string' && message !== '' ? message : '';
  const own = [label, text].filter((part) => part !== '').join(': ') + coded || 'Error';
  if (depth >= MAX_DEPTH) return own;
  if (Array.isArray(errors) && errors.length > 0) {
    return `${own} [${errors
      .slice(0, MAX_DEPTH)
      .map((one) => describe(one, depth + 1))
      .join('; ')}]`;
  }
  return own + describeCause(text, cause, depth + 1);
}

/** Wrappers often repeat what they wrap: that is left out, but not what is behind it. */
function describeCause(text: string, cause: unknown, depth: number): string {
  if (cause === undefined || cause === null || depth > MAX_DEPTH) return '';
  if (!repeats(text, cause)) return ` ← ${describe(cause, depth)}`;
  return describeCause(text, (cause as { cause?: unknown }).cause, depth + 1);
}

/** As a whole or at its end. Anywhere else a short text is there by accident, as an `x` is in "Outbox". */
function repeats(text: string, cause: unknown): boolean {
  const { message } = cause as { message?: unknown };
  return typeof message === 'string' && message !== '' && (text === message || text.endsWith(`: ${message}`));
}

function clip(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what is replaced
  const clean = text
    .replace(/\p{Surrogate}/gu, '\ufffd')
    .replace(/[\u0000-\u001f\u007f\u2028\u2029]+/g, ' ')
    .trim();
  const points = Array.from(clean);
  return points.length <= MAX_ERROR_TEXT ? clean : `${points.slice(0, MAX_ERROR_TEXT - 1).join('')}…`;
}
