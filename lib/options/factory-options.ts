import { misconfigured } from '../outbox.errors.js';
import { unknownNames } from './option-names.js';
import { INVALID, problemsOf, type Rule } from './rules.js';
import { showNoText } from './show.js';

/** One row for each option of a function that gives a transport, such as `kafka()`, or of a decorator. */
export interface FactoryTable<Options extends object> {
  /** As it is called: `kafka()`; with its place, if it is a decorator. */
  readonly factory: string;
  readonly rows: { readonly [Name in keyof Options]-?: FactoryRow };
  /** The option that cannot be left out, for who gives no options at all. */
  readonly needed?: keyof Options & string;
  /** Names that belong into one of the options → where. */
  readonly inner?: Readonly<Record<string, string>>;
  /** What is wrong with options that are right by themselves. */
  readonly across?: (options: Options) => readonly string[];
  /** What to do where the needed option is undefined. */
  readonly hint?: string;
}
interface FactoryRow {
  readonly rule: Rule;
  readonly default?: unknown;
}

export function row(rule: Rule, otherwise?: unknown): FactoryRow {
  return { rule, default: otherwise };
}

const CALL = Symbol.for('nestjs-outbox.factory');

/** Marks a function that gives a transport: one that is not called is noticed, whatever a minifier makes of its name. */
export function markFactory(factory: (...options: never[]) => object, call: string): void {
  Object.defineProperty(factory, CALL, { value: call });
}

/** How a marked function is called: `kafka({ … })`. */
export function callOf(value: object): string | undefined {
  return Object.hasOwn(value, CALL) ? (value as { readonly [CALL]?: string })[CALL] : undefined;
}

/**
 * Checks everything, and throws one error over all that is wrong.
 *
 * @returns options as their rules make them, or their defaults
 */
export function resolveFactory<Options extends object>(table: FactoryTable<Options>, given: Options): object {
  const { factory, needed, inner, across } = table;
  const hint = needed !== undefined && given?.[needed] === undefined ? table.hint : undefined;
  if (typeof given !== 'object' || given === null) {
    const wanted = needed === undefined ? 'an object' : `an object with '${needed}'`;
    refuseOptions(factory, [`options are ${showNoText(given)}; must be ${wanted}`], hint);
  }
  const rows = Object.entries(table.rows as Readonly<Record<string, FactoryRow>>);
  const names = rows.map(([name]) => name);
  const problems = [...unknownNames(given, names, inner), ...(across?.(given) ?? [])];
  const resolved: Record<string, unknown> = {};
  for (const [name, { rule, default: otherwise }] of rows) {
    const value = (given as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined || rule.needed) problems.push(...problemsOf(rule, value, name));
    const parsed = value === undefined ? otherwise : rule.parse(value);
    if (parsed !== undefined && parsed !== INVALID) resolved[name] = parsed;
  }
  refuseOptions(factory, problems, hint);
  return resolved;
}

/** One error for all problems. @param factory as it is called: `kafka()` */
export function refuseOptions(factory: string, problems: readonly string[], hint?: string): void {
  if (problems.length > 0) misconfigured(`${factory}: ${problems.join('; ')}.`, hint);
}
