import { didYouMean } from './did-you-mean.js';
import { typeName } from './text-checks.js';

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

/** The options of one message, for one kind of transport, when they are no object. Given by name: `options.kafka`. */
export function noObject(place: string, options: unknown): string | undefined {
  if (options === undefined || (typeof options === 'object' && options !== null && !Array.isArray(options)))
    return undefined;
  return `${place} must be an object, not ${typeName(options)}`;
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
