import { noObject, unknownOption } from './option-names.js';

/** What is wrong with the value of an option, or undefined. */
export type OptionCheck = (value: unknown, name: string) => string | undefined;
/** The options that a message may have for one broker, by name. */
export type OptionChecks = Readonly<Record<string, OptionCheck>>;

/** What is wrong with the values: also in rows of other programs, which hold what they like. */
export function valuesProblem(place: string, options: unknown, checks: OptionChecks): string | undefined {
  const problem = noObject(place, options);
  if (problem !== undefined || options === undefined) return problem;
  for (const name in checks) {
    const value = (options as Record<string, unknown>)[name];
    const found = value === undefined ? undefined : checks[name]!(value, name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** At the enqueue: names that there are not, too. */
export function optionsProblem(place: string, options: object | undefined, checks: OptionChecks): string | undefined {
  return valuesProblem(place, options, checks) ?? unknownOption(place, options, Object.keys(checks));
}

export const integerUpTo =
  (max: number, problem: string): OptionCheck =>
  (value) =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) <= max ? undefined : problem;
