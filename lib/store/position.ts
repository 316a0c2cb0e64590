import { OutboxMessageError } from '../outbox.errors.js';

/** What one part of a position is made of. */
export type PositionPart = 'number' | 'time' | 'text';

const TIME = /^[\dT :.Z+-]{19,40}$|^-?infinity$/;
const SHAPES: Readonly<Record<PositionPart, (text: string) => boolean>> = {
  number: (text) => /^-?\d{1,20}$/.test(text),
  time: (text) => TIME.test(text),
  text: (text) => text.length <= 4_096 && !text.includes('\0'),
};

export const writePosition = (parts: readonly unknown[]): string => JSON.stringify(parts.map(String));

/** Where a page begins, behind what was seen. It comes back from the caller, so that anybody may have written it. */
export function readPosition(after: string, shape: readonly PositionPart[]): string[] {
  const parts = parsed(after);
  const fits =
    Array.isArray(parts) && parts.length === shape.length && shape.every((part, i) => isPart(parts[i], part));
  if (!fits) throw new OutboxMessageError('INVALID_MESSAGE', 'The cursor is not from this outbox.', { hint: HINT });
  return parts as string[];
}

export const HINT = 'Give `next` of the page before as it is, with the same filter.';

const isPart = (text: unknown, part: PositionPart): boolean => typeof text === 'string' && SHAPES[part](text);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
