import { OutboxConfigurationError } from '../../outbox.errors.js';
import { kindOf, type NestClient } from './kind.js';

/** What is read of a kind of Nest client, whose messages our own transport of that broker sends. */
export interface Readable {
  /** As Nest calls the class. */
  readonly name: string;
  /** The transport of ours. */
  readonly instead: string;
  readonly read: readonly string[];
  /** Of connections of Nest's own, and of its consumers: they change nothing of what is sent, or where. */
  readonly ignored: readonly string[];
  /** With a method of its own under one of these names, a client may send something else than its options say. */
  readonly methods: readonly string[];
}

/**
 * The client's options.
 * @param problemsOf what of their values cannot be followed
 */
export function optionsOf<Options extends object>(
  client: NestClient,
  { name, instead, read, ignored, methods }: Readable,
  problemsOf: (options: Options) => readonly string[],
): Options {
  const options = (client.options ?? {}) as Options;
  const [own, base] = [client, kindOf(client).base] as readonly object[] as readonly Record<string, unknown>[];
  const problems = [
    ...methods.filter((method) => own![method] !== base![method]).map((method) => `a ${method}() of its own`),
    ...unread(options, [...read, ...ignored]),
    ...problemsOf(options),
  ];
  if (problems.length === 0) return options;
  const text = `clientProxy(): only the options of this ${name} are used, and it has what cannot be followed: ${problems.join('; ')}.`;
  const hint = `Leave that out, or use ${instead} in place of the client.`;
  throw new OutboxConfigurationError('INVALID_OPTIONS', text, { hint });
}

/** Options that are given and not among these names. */
export function unread(options: object | undefined, names: readonly string[], path = ''): string[] {
  return Object.entries(options ?? {})
    .filter(([name, value]) => value !== undefined && !names.includes(name))
    .map(([name]) => `the option ${path}${name}`);
}
