import { types } from 'node:util';
import { didYouMean } from './did-you-mean.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { showNoText } from './show.js';

/**
 * What is wrong with the names of a transport's options, each with what was probably meant.
 * @param inner names that belong into one of the options → where
 */
export function unknownNames(
  options: object,
  known: readonly string[],
  inner: Readonly<Record<string, string>> = {},
): string[] {
  return Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => {
      const meant = Object.hasOwn(inner, name) ? inner[name] : didYouMean(name, known);
      return `${name} is no option (${meant === undefined ? `there are ${known.join(', ')}` : `did you mean '${meant}'?`})`;
    });
}

/**
 * A name in the options of one message that its transport does not know. At the enqueue only: rows of a later version may
 * hold more, and are published without it.
 */
export function unknownOption(
  place: string,
  options: object | undefined,
  known: readonly string[],
): string | undefined {
  const name = Object.keys(options ?? {}).find((one) => !known.includes(one));
  return name === undefined ? undefined : `${place}: ${unknownNames({ [name.slice(0, 100)]: '' }, known).join()}`;
}

/** One error for all problems. @param factory as it is called: `kafka()` */
export function refuseOptions(factory: string, problems: readonly string[]): void {
  if (problems.length > 0) {
    throw new OutboxConfigurationError('INVALID_OPTIONS', `${factory}: ${problems.join('; ')}.`);
  }
}

/** @param needed the option that cannot be left out */
export function refuseNoOptions(factory: string, options: unknown, needed: string): void {
  if (typeof options === 'object' && options !== null) return;
  refuseOptions(factory, [`options are ${showNoText(options)}; must be an object with '${needed}'`]);
}

/** What is wrong with the headers that a transport adds to every message. Their values are not shown. */
export function headerProblems(headers: unknown): string[] {
  if (headers === undefined) return [];
  // A list or a Map has no names of its own, and nothing of it would be sent.
  if (typeof headers !== 'object' || headers === null || Symbol.iterator in headers)
    return ['headers must be an object of names and values'];
  return Object.entries(headers)
    .filter(([, value]) => ![value].flat().every((one) => typeof one === 'string' || types.isUint8Array(one)))
    .map(([name]) => `headers.${name} must be a string, a Uint8Array or an array of those`);
}

/** What is wrong with options that are on or off, and that no type checked. */
export function switchProblems({ checkDestinations }: { readonly checkDestinations?: unknown }): string[] {
  return [undefined, true, false].includes(checkDestinations as boolean)
    ? []
    : ['checkDestinations must be true or false'];
}
