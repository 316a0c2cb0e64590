import type { OutboxMessage } from '../../outbox-message.js';
import { withoutCredentials, withoutShapes } from './credentials.js';
import { printable } from './printable.js';
import { beforeAnyAcross, mask, MOST_TAKEN_APART, quotes, secretsOf } from './secrets.js';

/** Longest error text that is stored or logged, in code points. */
export const MAX_ERROR_TEXT = 1024;
/** Characters that are looked at. */
const MOST_READ = MAX_ERROR_TEXT * 16;
/** Levels of `cause` and members of an AggregateError that are named. */
const MAX_DEPTH = 3;

/**
 * What may be said about an error in a log, an event or `last_error`: name, code and message, and those of its causes.
 * Never a stack or any other property (`query`, `parameters`, `config` hold payloads and credentials); user info of URLs
 * is removed; lone surrogates too, as no database takes them. Ends of lines become a space, other control characters an
 * escape.
 *
 * @param about messages whose payloads and headers the error may quote: what it quotes becomes `***`
 */
export function errorText(error: unknown, about: readonly OutboxMessage[] = []): string {
  try {
    const text = describe(error, 0);
    const [first] = about;
    if (first === undefined) return clip(redact(text));
    const known = about.length === 1 ? latest.get(first) : undefined;
    const size = first.body?.length;
    if (known?.text === text && known.size === size) return known.shown;
    const shown = clip(redact(masked(text, secretsOf(about))));
    if (about.length === 1 && size !== undefined && size > MOST_TAKEN_APART) latest.set(first, { text, size, shown });
    return shown;
  } catch {
    return 'an error that cannot be read';
  }
}

/** What was said last about one message with a large payload: a failure is told in several places. The size tells a payload that is not here yet. */
const latest = new WeakMap<
  OutboxMessage,
  { readonly text: string; readonly size: number | undefined; readonly shown: string }
>();

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
    text = clip(redact(masked(describe(error, 0), secrets)));
    places = (error as Error).stack?.match(/(?:\n {4}at [^\n]*)+$/)?.[0] ?? '';
  } catch {
    // as above
  }
  const copy = new Error(text);
  copy.stack = `Error: ${text}${mask(places, secrets)}`;
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

/** Cut before it is searched for each of them, which costs as much as it is long. */
function masked(text: string, secrets: ReadonlySet<string>): string {
  if (text.length <= MOST_READ) return mask(text, secrets);
  return mask(text.slice(0, wholeUpTo(text, secrets)), secrets) + '…';
}

/** How far a long text goes without a piece of a secret at its end: where that is cut off, the rest would not be found. */
function wholeUpTo(text: string, secrets: ReadonlySet<string>): number {
  let end = MOST_READ;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    // What `redact` finds by its end: a quoted value, or the user in a URL, or before a host.
    const from = Math.max(0, end - MAX_ERROR_TEXT);
    const open = text.slice(from, end).search(/["']|:\/\/|\w:\S*$/);
    if (open !== -1) end = from + open;
    const start = beforeAnyAcross(text, end, secrets);
    if (start === end) return end;
    end = start;
  }
  return 0;
}
/** Secrets that overlap in the text may go on and on. */
const MAX_ROUNDS = 20;

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
  const oneLine = text.replace(/\p{Surrogate}/gu, '\ufffd').replace(/[\t-\r\u0085\u2028\u2029]+/g, ' ');
  const clean = printable(oneLine.trim());
  const points = Array.from(clean);
  return points.length <= MAX_ERROR_TEXT ? clean : `${points.slice(0, MAX_ERROR_TEXT - 1).join('')}…`;
}
