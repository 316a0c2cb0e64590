import { OutboxMessage } from '../../outbox-message.js';

/** Shorter values are parts of ordinary words and numbers: hiding them would make texts unreadable, and hide nothing. */
const SHORTEST = 8;
/** Deeper than any sensible payload. */
const MAX_DEPTH = 100;
/** Characters that are taken apart into their values for one text, in some 30 ms: a whole batch of the default size. */
export const MOST_TAKEN_APART = 4 * 1024 * 1024;
/** Characters of the text that are searched for a value in the time that it takes to take one apart. */
const SEARCHED_AT_ONCE = 32;
/** What JSON writes otherwise. */
const ESCAPED = /["\\\u0000-\u001f\ud800-\udfff]/; // eslint-disable-line eslint/no-control-regex
const TEXT = new TextDecoder();

/**
 * Puts `***` for the values of these messages: of the headers, and of the payload each string and number of JSON, or each word of
 * anything else. Not for what is part of a message's id, type, topic or key. Of anything that is no message its values are hidden.
 *
 * @returns `undefined`: they are more than is looked through
 */
export function mask(text: string, about: readonly unknown[]): string | undefined {
  const search = new Search(text);
  for (const one of about) search.visit(one);
  if (search.left < 0) return undefined;
  return [...search.found]
    .sort((a, b) => b.length - a.length)
    .reduce((rest, form) => rest.replaceAll(form, '***'), text);
}

/** For values that stand in a text, as they are or as JSON writes them, once or twice: clients keep requests as text. */
class Search {
  readonly found = new Set<string>();
  left = MOST_TAKEN_APART;
  /** What it takes to look for one value. */
  readonly cost: number;
  names: readonly (string | null)[] = [];

  constructor(readonly text: string) {
    this.cost = text.length / SEARCHED_AT_ONCE;
  }

  visit(one: unknown): void {
    if (!(one instanceof OutboxMessage)) return this.walk(one, new Set());
    const { id, type, topic, key, body, headersJson } = one;
    this.names = [id, type, topic, key];
    if (body !== null) this.takeApart(body);
    if (headersJson === null) return;
    try {
      this.walk(one.headers);
    } catch {
      this.takeApart(headersJson); // a foreign writer's text that is no JSON
    }
  }

  /** @param seen what a walk through something that may be circular has met */
  walk(value: unknown, seen?: Set<object>, depth = 0): void {
    this.left -= 1;
    if (this.left < 0) return;
    if (typeof value === 'string') this.look(value);
    else if (typeof value === 'number' || typeof value === 'bigint') this.look(String(value));
    else if (value instanceof Uint8Array) this.takeApart(value);
    else if (typeof value === 'object' && value !== null && depth < MAX_DEPTH && seen?.has(value) !== true) {
      seen?.add(value);
      for (const member of seen === undefined ? Object.values(value) : dataOf(value))
        this.walk(member, seen, depth + 1);
    }
  }

  takeApart(content: string | Uint8Array): void {
    if (content.length > this.left) this.left = -1;
    if (this.left < 0) return;
    const text = typeof content === 'string' ? content : TEXT.decode(content);
    try {
      this.walk(JSON.parse(text));
    } catch {
      this.look(text);
      for (const word of text.split(/[\s"'`,;:<>()[\]{}=&|]+/)) this.look(word);
    }
  }

  look(value: string): void {
    this.left -= value.length;
    if (value.length < SHORTEST) return;
    this.left -= this.cost;
    if (this.left < 0) return;
    this.lookFor(value, value);
    if (!ESCAPED.test(value)) return;
    const escaped = escape(value);
    this.lookFor(escaped, value);
    this.lookFor(escape(escaped), value);
  }

  lookFor(form: string, value: string): void {
    if (this.text.includes(form) && !this.names.some((name) => name?.includes(value))) this.found.add(form);
  }
}

/** Without getters, which may do anything. */
function dataOf(one: object): unknown[] {
  return Object.values(Object.getOwnPropertyDescriptors(one)).map((property) => property.value as unknown);
}

function escape(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
