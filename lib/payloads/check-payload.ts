import { isThenable } from '../message/is-thenable.js';
import { pathText } from '../message/lossless.js';
import { printable } from '../observe/redact/printable.js';
import { refuse, threw } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { isSchema, type PayloadCheck, type PayloadIssue } from './standard-schema.js';

/** Members that an error names. */
const MOST_NAMED = 10;
const WHY = 'What is wrong with them is not told here, as it may quote the payload: ask the schema.';
const AT_ONCE =
  'It must answer at once: a schema with its result; a function by throwing, by returning nothing, or a list of issues.';

/**
 * Asks the `validate` of an event's class. A tombstone has nothing that a schema could look at.
 *
 * @param payload what is serialized
 * @param subject `Event 'order.placed'`, for errors
 * @throws OutboxMessageError `PAYLOAD_INVALID` with the paths of what is wrong; `INVALID_MESSAGE` where there is no answer
 */
export function checkPayload<T>(check: PayloadCheck<T>, event: T, payload: unknown, subject: string): void {
  const bySchema = isSchema(check);
  if (bySchema && payload === null) return;
  let problem: Problem | undefined;
  try {
    problem = bySchema ? ofSchema(check['~standard'].validate(payload)) : ofFunction(check(event));
  } catch (error) {
    const code = bySchema ? 'INVALID_MESSAGE' : 'PAYLOAD_INVALID';
    throw threw(code, `${subject}: its \`validate\` threw.`, error, [event, payload]);
  }
  if (problem !== undefined) refuse(subject, `its \`validate\` ${problem.text}`, problem.code, problem.hint);
}

interface Problem {
  readonly code: 'PAYLOAD_INVALID' | 'INVALID_MESSAGE';
  readonly text: string;
  readonly hint: string;
}

function ofSchema(answer: unknown): Problem | undefined {
  if (typeof answer !== 'object' || answer === null || isThenable(answer)) return noAnswer(answer);
  const { issues } = answer as { issues?: unknown };
  return issues ? refusal('payload', issues) : undefined;
}

function ofFunction(answer: unknown): Problem | undefined {
  if (answer === undefined || answer === null) return undefined;
  if (!Array.isArray(answer)) return noAnswer(answer);
  return answer.length === 0 ? undefined : refusal('event', answer);
}

function noAnswer(answer: unknown): Problem {
  // Zod answers so, too, where a check of an application's throws; nobody awaits it.
  if (isThenable(answer)) answer.then(undefined, () => undefined);
  const text = `answers with ${isThenable(answer) ? 'a promise' : typeName(answer)}`;
  return { code: 'INVALID_MESSAGE', text, hint: AT_ONCE };
}

function refusal(root: 'event' | 'payload', issues: unknown): Problem {
  const paths = new Set<string>();
  for (const path of pathsOf(Array.isArray(issues) ? issues : [])) {
    const shown = printable(pathText(root, path));
    if (paths.size === MOST_NAMED && !paths.has(shown)) return refused([...paths, 'more']);
    paths.add(shown);
  }
  return refused(paths.size === 0 ? [root] : [...paths]);
}

function refused(names: readonly string[]): Problem {
  const [last, ...others] = [...names].reverse() as [string, ...string[]];
  const text = others.length === 0 ? last : `${others.reverse().join(', ')} and ${last}`;
  return { code: 'PAYLOAD_INVALID', text: `refuses ${text}`, hint: WHY };
}

type Path = readonly (string | number)[];

function* pathsOf(issues: readonly unknown[], above: Path = []): Generator<Path> {
  for (const issue of issues) {
    const { path, property, children } = Object(issue) as PayloadIssue;
    const names = Array.isArray(path) ? path : [property ?? []].flat();
    const here = [...above, ...names.map(nameOf)];
    if (Array.isArray(children) && children.length > 0) yield* pathsOf(children, here);
    else yield here;
  }
}

/** A number, also as text, is an index. */
function nameOf(segment: unknown): string | number {
  const key: unknown = typeof segment === 'object' && segment !== null ? (segment as { key?: unknown }).key : segment;
  if (typeof key === 'number' || (typeof key === 'string' && /^\d{1,9}$/.test(key))) return Number(key);
  return typeof key === 'string' || typeof key === 'symbol' ? String(key) : '?';
}
