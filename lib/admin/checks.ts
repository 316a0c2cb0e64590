import { parseUuid } from '../message/uuid-v7.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import type { Duration } from '../outbox-message.js';
import type { RowFilter } from '../store/inspect-store.js';
import { ROW_LIMITS } from '../store/limits.js';
import { milliseconds } from '../time/duration.js';

/** What operators give is checked here. Each throws OutboxMessageError `INVALID_MESSAGE`, with the action as its subject. */

export function checkObject(subject: string, what: string, given: object, known: readonly string[]): void {
  const value: unknown = given;
  if (typeof value !== 'object' || value === null) refuse(subject, `${what} must be an object, not ${typeName(value)}`);
  refuseUnknown(value, known, subject);
}

/** Nobody means everything by leaving out a condition. */
export function checkNotEmpty(subject: string, filter: object, conditions: readonly string[]): void {
  if (!conditions.every((name) => (filter as Record<string, unknown>)[name] === undefined)) return;
  refuse(subject, 'the filter is empty', 'INVALID_MESSAGE', `Give at least one of ${conditions.join(', ')}.`);
}

export const checkedId = (subject: string, id: unknown): string =>
  parseUuid(id) ?? refuse(subject, 'the id is not a message id: a UUID has 36 characters');

/** Each once. */
export function checkedIds(subject: string, ids: readonly string[] | undefined, most: number): string[] | undefined {
  if (ids === undefined) return undefined;
  if (!Array.isArray(ids) || ids.length === 0) refuse(subject, 'ids must be an array with at least one id');
  if (ids.length > most) refuse(subject, `ids has ${ids.length} ids, more than ${most}`);
  const problem = (n: number): string => `ids[${n}] is not a message id: a UUID has 36 characters`;
  return [...new Set(ids.map((id, n) => parseUuid(id) ?? refuse(subject, problem(n))))];
}

/** Characters: a column takes as many bytes. What is longer would not fit into the audit. */
const MAX_TEXT = ROW_LIMITS.topic;

export function checkedText(subject: string, name: string, text: unknown): string | undefined {
  if (text === undefined) return undefined;
  if (typeof text !== 'string' || text === '') refuse(subject, `${name} must be a string that is not empty`);
  // No message has one: PostgreSQL would fail the statement.
  if (text.includes('\0')) refuse(subject, `${name} contains a NUL character`);
  if (text.length > MAX_TEXT) refuse(subject, `${name} has ${text.length} characters, more than any message has`);
  return text;
}

type Texts = { key?: string; topic?: string; type?: string };
type Conditions = Readonly<Partial<Record<keyof Texts, string>>> & { olderThan?: Duration; youngerThan?: Duration };

/** The conditions of a filter that are given, but for the transport. */
export function checkedFilter(subject: string, given: Conditions): Omit<RowFilter, 'transport'> {
  const filter: Record<string, string | number> = {};
  for (const name of ['key', 'topic', 'type'] as const) {
    const text = checkedText(subject, name, given[name]);
    if (text !== undefined) filter[name] = text;
  }
  for (const name of ['olderThan', 'youngerThan'] as const)
    if (given[name] !== undefined)
      filter[name] = milliseconds(given[name]) ?? refuse(subject, `${name} must be a duration such as '5m'`);
  return filter;
}

/** One of these, or some of them, in this order. */
export function checkedStates<State extends string>(
  subject: string,
  allowed: readonly State[],
  state: State | readonly State[],
): State[] {
  const given: readonly unknown[] = [state].flat();
  if (given.length === 0) refuse(subject, `state must name one of ${allowed.join(', ')} at least`);
  for (const each of given) {
    if ((allowed as readonly unknown[]).includes(each)) continue;
    const text = typeof each === 'string' ? `'${each.slice(0, 100)}'` : typeName(each);
    refuse(subject, `state ${text} is not one of ${allowed.join(', ')}`);
  }
  return allowed.filter((each) => given.includes(each));
}

export function checkedFlag(subject: string, name: string, flag: unknown = false): boolean {
  return typeof flag === 'boolean' ? flag : refuse(subject, `${name} must be true or false, not ${typeName(flag)}`);
}

export function checkSignal(subject: string, signal: unknown, progress: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) refuse(subject, 'signal must be an AbortSignal');
  if (typeof progress !== 'function') refuse(subject, `progress must be a function, not ${typeName(progress)}`);
}

const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 500;

export function checkedPage(
  subject: string,
  page: { limit?: number; after?: string },
): { limit: number; after: string | undefined } {
  checkObject(subject, 'a page', page, ['limit', 'after']);
  const { limit = DEFAULT_LIMIT, after } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    refuse(subject, `limit must be a whole number from 1 to ${MAX_LIMIT}`);
  if (after !== undefined && typeof after !== 'string')
    refuse(subject, `after must be next of the page before, not ${typeName(after)}`);
  return { limit, after };
}

export function checkedAuditId(subject: string, name: string, id: unknown): string {
  if (typeof id === 'string' && /^\d{1,18}$/.test(id)) return id;
  return refuse(subject, `${name} must be the id of an entry of audit()`);
}
