/** What the command ends with; documented, stable. */
export const EXIT = {
  ok: 0,
  /** It was tried, and failed. */
  failed: 1,
  /** The command line, the configuration or an answer is wrong: nothing was tried. */
  usage: 2,
  /** What was looked for is not there, or the outbox is not healthy. */
  nothing: 3,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends the command with one line on stderr. The text holds no secret. */
export class CliError extends Error {
  constructor(
    readonly exitCode: ExitCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** @throws always: wrong input, exit code 2 */
export function refuseUsage(message: string): never {
  throw new CliError(EXIT.usage, message);
}

const WRONG_INPUT = new Set(['INVALID_MESSAGE', 'UNKNOWN_TRANSPORT', 'INVALID_OPTIONS']);

/** Wrong arguments that the library refuses, not the parser. */
export const isWrongInput = (error: unknown): boolean => WRONG_INPUT.has(String(Object(error)['code']));
