import type { UpcastSteps } from './event-from.js';

/** Steps that an error names. */
const MOST_NAMED = 5;

/** All that is wrong with the steps of a class. From the lowest on none may be missing: a payload would stop halfway. */
export function upcastProblems(steps: unknown, version = 1): string[] {
  if (typeof steps !== 'object' || steps === null) return []; // which its rule says
  const given = Object.keys(steps);
  const problems = given.flatMap((name) => {
    const from = Number(name);
    if (!(from >= 1 && from < version && String(Math.trunc(from)) === name))
      return [`upcast.${name.slice(0, 40)} is no version below ${version}, the event's own`];
    return typeof (steps as UpcastSteps)[from] === 'function' ? [] : [`upcast.${name} must be a function`];
  });
  const known = new Set(given.map(Number));
  const missing: number[] = [];
  for (let from = Math.min(...known) + 1; from < version && missing.length < MOST_NAMED; from++)
    if (!known.has(from)) missing.push(from);
  return missing.length === 0 ? problems : [...problems, `upcast has no step from version ${missing.join(', ')}`];
}

/** The older versions that a class takes, oldest first. */
export const olderVersions = (steps: UpcastSteps = {}): number[] => Object.keys(steps).map(Number);
