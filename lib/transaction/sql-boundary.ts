/**
 * What a statement does to the transaction. `back`: ROLLBACK TO; `prepare`: of two phases, the end for us; `unsure`: perhaps
 * something, the database has to be asked.
 */
export type Boundary = 'begin' | 'save' | 'release' | 'back' | 'commit' | 'rollback' | 'prepare' | 'unsure';

export const isEnd = (boundary: Boundary | undefined): boolean =>
  boundary === 'commit' || boundary === 'rollback' || boundary === 'prepare';

/**
 * At one place of the text. The last group commits by itself on MySQL and MariaDB, and is answered with rows, which say
 * nothing of the transaction.
 */
const BOUNDARY =
  /(begin|start\s+transaction|savepoint|release|commit|end|rollback|abort|prepare\s+transaction(?=\s*'))\b(\s+(?:work\s+|transaction\s+)?to\b)?|(analyze|cache|check|load\s+index|optimize|repair)\b/iy;
const BY_VERB: Readonly<Record<string, Boundary>> = {
  be: 'begin',
  st: 'begin',
  sa: 'save',
  re: 'release',
  co: 'commit',
  en: 'commit',
  ro: 'rollback',
  ab: 'rollback',
  pr: 'prepare',
};
const SAVEPOINT =
  /(?:savepoint|release(?:\s+savepoint)?|(?:rollback|abort)(?:\s+(?:work|transaction))?\s+to(?:\s+savepoint)?)\s+(?:"([^"]+)"|`([^`]+)`|([\w$]+))/iy;
/** Of a text with more statements than this nobody looks at each. */
const STATEMENTS = 100;

/** @param parameters with some of them PostgreSQL takes one statement only */
export function boundaryOf(text: unknown, parameters?: unknown): Boundary | undefined {
  if (typeof text !== 'string') return undefined;
  const start = startOf(text, 0);
  const first = boundaryAt(text, start);
  if (isEnd(first) || (Array.isArray(parameters) && parameters.length > 0)) return first;
  return hasLater(text, start) ? 'unsure' : first;
}

function boundaryAt(text: string, start: number): Boundary | undefined {
  BOUNDARY.lastIndex = start;
  const found = BOUNDARY.exec(text);
  if (found === null) return undefined;
  if (found[1] === undefined) return 'unsure';
  if (found[2] !== undefined) return 'back';
  return BY_VERB[found[1].slice(0, 2).toLowerCase()];
}

/** The name in a statement that makes, releases or goes back to a savepoint, without regard to case; `''` where it cannot be read. */
export function savepointOf(text: string): string {
  SAVEPOINT.lastIndex = startOf(text, 0);
  const [, ...names] = SAVEPOINT.exec(text) ?? [];
  return (names.find((name) => name !== undefined) ?? '').toLowerCase();
}

/** Behind any semicolon, be it one inside a string: a question too many is answered, and costs nothing else. */
function hasLater(text: string, from: number): boolean {
  let at = text.indexOf(';', from);
  for (let looked = 0; at !== -1; looked += 1) {
    const start = startOf(text, at);
    if (looked === STATEMENTS || boundaryAt(text, start) !== undefined) return true;
    at = text.indexOf(';', start);
  }
  return false;
}

const [SEMICOLON, DASH, SLASH, STAR, HASH] = [0x3b, 0x2d, 0x2f, 0x2a, 0x23];

/** Behind blanks, semicolons and comments. */
function startOf(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    const next = code === DASH || code === SLASH ? text.charCodeAt(at + 1) : 0;
    if (code <= 0x20 || code === SEMICOLON) at += 1;
    else if (code === HASH || (code === DASH && next === DASH)) at = behindLine(text, at);
    else if (code === SLASH && next === STAR) at = behindComment(text, at);
    else return at;
  }
}

const LINE_END = /[\n\r]/g;
function behindLine(text: string, from: number): number {
  LINE_END.lastIndex = from;
  return LINE_END.test(text) ? LINE_END.lastIndex : text.length;
}

/** As PostgreSQL nests them. Where MySQL does not, its answers tell what the statement was. */
const COMMENT_EDGE = /\/\*|\*\//g;
function behindComment(text: string, from: number): number {
  COMMENT_EDGE.lastIndex = from;
  let depth = 0;
  for (let edge = COMMENT_EDGE.exec(text); edge !== null; edge = COMMENT_EDGE.exec(text)) {
    depth += edge[0] === '/*' ? 1 : -1;
    if (depth === 0) return COMMENT_EDGE.lastIndex;
  }
  return text.length;
}

/** MySQL's `SERVER_STATUS_IN_TRANS`. */
const IN_TRANSACTION = 1;

/**
 * Whether an answer of MySQL or MariaDB tells that no transaction is open behind its statement: those that define something, or
 * lock tables, commit by themselves. Rows tell nothing; of several statements, and of a procedure, the answer is a list of answers.
 */
export function tellsOfNoTransaction(answer: unknown): boolean {
  const raw = (answer as { raw?: unknown } | null | undefined)?.raw ?? answer;
  if (!Array.isArray(raw)) return statusOf(raw) === false;
  for (const part of raw as unknown[]) {
    const status = statusOf(part);
    if (status === false) return true;
    if (status === undefined && !Array.isArray(part)) return false; // a row
  }
  return false;
}

function statusOf(header: unknown): boolean | undefined {
  return isInTransaction((header as { serverStatus?: unknown } | null | undefined)?.serverStatus);
}

/** By the status in an answer; `undefined`: it does not say. */
export function isInTransaction(status: unknown): boolean | undefined {
  return typeof status === 'number' ? (status & IN_TRANSACTION) !== 0 : undefined;
}
