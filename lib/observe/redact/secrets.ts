import type { OutboxMessage } from '../../outbox-message.js';
import { type LargeBody, maskShared } from './shared-text.js';
import { textsOf } from './texts-of.js';

/** Shorter values are parts of ordinary words and numbers: hiding them would make texts unreadable, and hide nothing. */
const SHORTEST = 8;
/** Deeper than any sensible payload. */
const MAX_DEPTH = 100;
const TEXT = new TextDecoder();
/** Bytes of payloads that are taken apart into their values, for some 30 ms; what the rest has in common with a text is found without. */
export const MOST_TAKEN_APART = 256 * 1024;
/** Bytes that are compared with a text, for some 30 ms more. */
const MOST_COMPARED = 8 * 1024 * 1024;
const NOT_SHOWN = 'an error that may quote more than can be looked through (not shown)';

/** Values that a text may not hold, and payloads that are too large for that. */
export class Secrets extends Set<string> {
  readonly bodies: LargeBody[] = [];
  /** There is more than anybody looks at: no text about it is shown. */
  tooMuch = false;
}

/**
 * Values that must not appear in a text about these messages: those of the headers, and of the payload each string and
 * number of JSON, or each word of anything else. Not what is part of the message's id, type, topic or key.
 */
export function secretsOf(messages: readonly OutboxMessage[]): Secrets {
  const found = new Secrets();
  let size = 0;
  for (const message of messages) {
    const { body, id, type, topic, key } = message;
    size += body?.length ?? 0;
    const isLarge = size > MOST_TAKEN_APART;
    for (const value of ofMessage(message, isLarge)) found.add(value);
    if (isLarge && body !== null) found.bodies.push({ body, names: [id, type, topic, key] });
  }
  found.tooMuch = size > MOST_COMPARED + MOST_TAKEN_APART;
  return found;
}

function ofMessage(message: OutboxMessage, isLarge: boolean): Set<string> {
  const found = new Set<string>();
  collectHeaders(message, found);
  if (!isLarge) collectPayload(message.body, message.contentType, found);
  const { id, type, topic, key } = message;
  for (const value of found) if ([id, type, topic, key].some((name) => name?.includes(value))) found.delete(value);
  return found;
}

export function secretsOfPayload(payload: Uint8Array, contentType: string): Secrets {
  const found = new Secrets();
  found.tooMuch = payload.length > MOST_COMPARED;
  if (payload.length > MOST_TAKEN_APART) found.bodies.push({ body: payload, names: [] });
  else collectPayload(payload, contentType, found);
  return found;
}

/** The same of what a caller gives, before it is a message. */
export function secretsIn(value: unknown): Set<string> {
  const found = new Set<string>();
  // Data properties only: a getter of the caller's may do anything.
  const members = (one: object): unknown[] =>
    Object.values(Object.getOwnPropertyDescriptors(one)).map((property) => property.value as unknown);
  collect(value, found, members, new Set());
  return found;
}

/** Puts `***` where one of them stands, as it is or as JSON writes it, once or twice; the longest first, as one may be part of another. */
export function mask(text: string, secrets: Iterable<string>): string {
  const hits: string[] = [];
  const { tooMuch = false, bodies = [] } = secrets instanceof Secrets ? secrets : {};
  if (tooMuch) return NOT_SHOWN;
  for (const form of formsOf(secrets)) if (text.includes(form)) hits.push(form);
  const masked = hits.sort((a, b) => b.length - a.length).reduce((rest, form) => rest.replaceAll(form, '***'), text);
  return bodies.length === 0 ? masked : maskShared(masked, bodies);
}

/** The place, or before it the start of one of them that the text has across it. */
export function beforeAnyAcross(text: string, place: number, secrets: Iterable<string>): number {
  let start = place;
  for (const form of formsOf(secrets)) {
    for (let at = 0; at !== -1;) {
      const from = Math.max(0, start - form.length + 1);
      at = text.slice(from, start + form.length - 1).indexOf(form);
      if (at !== -1) start = from + at;
    }
  }
  return start;
}

/** Whether anything of an error that a log may print holds one of them. @throws when it cannot be looked into */
export function quotes(error: unknown, secrets: ReadonlySet<string>): boolean {
  const { tooMuch = false, bodies = [] } = secrets instanceof Secrets ? secrets : {};
  if (tooMuch) return true;
  if (secrets.size === 0 && bodies.length === 0) return false;
  const text = textsOf(error).join('\0');
  if (bodies.length > 0 && (text.length > MOST_TAKEN_APART / 4 || maskShared(text, bodies) !== text)) return true;
  for (const form of formsOf(secrets)) if (text.includes(form)) return true;
  return false;
}

/** Each as it is and, if that is another text, as JSON writes it, and as JSON writes that: clients keep requests as text. */
function* formsOf(secrets: Iterable<string>): Generator<string> {
  for (const secret of secrets) {
    yield secret;
    const escaped = escape(secret);
    if (escaped === secret) continue;
    yield escaped;
    yield escape(escaped);
  }
}

function escape(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function collectHeaders(message: OutboxMessage, found: Set<string>): void {
  if (message.headersJson === null) return;
  try {
    collect(message.headers, found, Object.values);
  } catch {
    addWords(message.headersJson, found); // a foreign writer's text that is no JSON
  }
}

function collectPayload(body: string | Uint8Array | null, contentType: string, found: Set<string>): void {
  if (body === null) return;
  const text = typeof body === 'string' ? body : TEXT.decode(body);
  if (/[/+]json\b/i.test(contentType)) {
    try {
      return collect(JSON.parse(text) as unknown, found, Object.values);
    } catch {
      // its words, then
    }
  }
  addWords(text, found);
}

function addWords(text: string, found: Set<string>): void {
  add(text, found);
  for (const word of text.split(/[\s"'`,;:<>()[\]{}=&|]+/)) add(word, found);
}

/** @param seen what a walk through something that may be circular has met */
function collect(
  value: unknown,
  found: Set<string>,
  members: (one: object) => unknown[],
  seen?: Set<object>,
  depth = 0,
): void {
  if (typeof value === 'string') add(value, found);
  else if (typeof value === 'number' || typeof value === 'bigint') add(String(value), found);
  else if (value instanceof Uint8Array) addWords(TEXT.decode(value), found);
  else if (typeof value === 'object' && value !== null && depth < MAX_DEPTH && seen?.has(value) !== true) {
    seen?.add(value);
    for (const member of members(value)) collect(member, found, members, seen, depth + 1);
  }
}

function add(text: string, found: Set<string>): void {
  if (text.length >= SHORTEST) found.add(text);
}
