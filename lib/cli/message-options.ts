import type { CliOption, Given } from './command.js';
import { refuseUsage } from './exit-code.js';

/** Which messages, for every command that looks for some. */
export const MESSAGE_OPTIONS: readonly CliOption[] = [
  { flags: '--key <key>', help: 'of this key' },
  { flags: '--type <type>', help: 'of this type' },
  { flags: '--topic <topic>', help: 'of this topic' },
  { flags: '--transport <name>', help: 'of this transport' },
];

const NAMES = ['key', 'type', 'topic', 'transport', 'state', 'olderThan', 'youngerThan'] as const;

/** What was given of the filter, and the ids. */
export function filterOf<T>({ args, options }: Given, ids = args): T {
  const filter: Record<string, unknown> = {};
  for (const name of NAMES) if (options[name] !== undefined) filter[name] = options[name];
  return { ...filter, ...(ids.length === 0 ? {} : { ids }) } as T;
}

/** @throws CliError */
export function readCount(text: string): number {
  const count = Number(text);
  return /^\d{1,9}$/.test(text) && count > 0 ? count : refuseUsage('It must be a whole number from 1.');
}
