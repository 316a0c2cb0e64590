import type { CliOption, Given } from './command.js';
import { CliError, EXIT, refuseUsage } from './exit-code.js';
import type { Terminal } from './terminal.js';

/** Of every command that destroys something. */
export const CONFIRM_OPTIONS: readonly CliOption[] = [
  { flags: '-y, --yes', help: 'do not ask' },
  { flags: '--dry-run', help: 'only say what it would do' },
];

export const isDryRun = ({ options }: Given): boolean => options['dryRun'] === true;

/** Before anything is opened: without a terminal nobody can be asked. @throws CliError exit code 2 */
export function checkConfirmable(what: string, given: Given, { isInteractive }: Pick<Terminal, 'isInteractive'>): void {
  if (given.options['yes'] === true || isDryRun(given) || isInteractive) return;
  refuseUsage(`${what} asks before it begins, and there is no terminal to ask: give --yes, or --dry-run.`);
}

/** @param question without its mark. @throws CliError: the answer was no, or none came */
export async function confirm(question: string, { options }: Given, terminal: Terminal): Promise<void> {
  if (options['yes'] === true) return;
  const answer = await terminal.ask(`${question}? [y/N] `);
  if (answer !== undefined && /^y(es)?$/i.test(answer.trim())) return;
  throw new CliError(EXIT.interrupted, 'Nothing was changed.');
}
