import { hostname, userInfo } from 'node:os';
import { refuse } from '../options/refuse.js';
import { textProblem } from '../options/text-checks.js';
import { printable } from '../observe/redact/printable.js';

/** Characters of the column. */
const MAX_ACTOR = 255;

/** Who acts: as the caller says, or the user of this process and its machine. For people, and no proof of who it was. */
export function actorOf(subject: string, by: unknown = thisUser()): string {
  const problem = textProblem('by', by);
  if (problem !== undefined) refuse(subject, problem);
  return [...printable(by as string)].slice(0, MAX_ACTOR).join('');
}

function thisUser(): string {
  let user = 'unknown';
  try {
    user = userInfo().username;
  } catch {
    // A container may run as a user without a name.
  }
  return `${user}@${hostname()}`.slice(0, MAX_ACTOR);
}
