import { statement, type Statement } from '../sql.js';

/** Statement texts are kept for lists up to this size; longer ones are built anew. */
const KEPT = 256;

/** A statement whose text depends on how many elements it gets. */
export function sized(build: (count: number) => string): (count: number) => Statement {
  const kept = new Map<number, Statement>();
  return (count) => {
    const built = kept.get(count) ?? statement(undefined, build(count));
    if (count <= KEPT) kept.set(count, built);
    return built;
  };
}

/** Begins an ORDER BY of the rows of a key: with all columns of the index MySQL reads the first, and else sorts all of them. */
export const BY_KEY = 'p.transport, p.bucket, p.blocking, p.`key`';

export const times = (count: number, part: string, separator: string): string =>
  new Array<string>(count).fill(part).join(separator);
/** Inside `in (…)`. */
export const marks = (count: number): string => times(count, '?', ', ');
