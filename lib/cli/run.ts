import { CommanderError } from 'commander';
import { errorText } from '../observe/redact/error-text.js';
import { printable } from '../observe/redact/printable.js';
import { COMMANDS } from './commands.js';
import type { CliCommand, CliContext, Given } from './command.js';
import { CliError, EXIT, isWrongInput, refuseUsage, type ExitCode } from './exit-code.js';
import { Interrupt } from './interrupt.js';
import { openOutbox, type OpenOutbox } from './connect/open-outbox.js';
import { parse } from './parser.js';
import { refuseSecrets } from './refuse-secrets.js';
import { readSettings } from './connect/settings.js';
import type { ProcessTerminal } from './process-terminal.js';

/** @returns the exit code. Whatever happens is told in one line on stderr. */
export async function run(argv: readonly string[], terminal: ProcessTerminal): Promise<ExitCode> {
  const interrupt = new Interrupt(
    () => terminal.end(EXIT.interrupted),
    (line) => terminal.say(line),
  );
  terminal.onInterrupt(() => interrupt.ask());
  try {
    refuseSecrets(argv);
    if (argv.length === 0) refuseUsage('Give a command: nestjs-outbox --help lists them.');
    const parsed = await parse(argv, COMMANDS, terminal);
    if (parsed === undefined) return EXIT.ok;
    return await runCommand(parsed.command, parsed.given, terminal, interrupt);
  } catch (error) {
    return report(error, terminal);
  }
}

async function runCommand(
  command: CliCommand,
  given: Given,
  terminal: ProcessTerminal,
  interrupt: Interrupt,
): Promise<ExitCode> {
  if (given.options['color'] === false) terminal.withoutColors();
  const opened: OpenOutbox[] = [];
  const context: CliContext = {
    terminal,
    interrupt,
    json: given.options['json'] === true,
    commands: COMMANDS,
    settings: () => readSettings(given.options, process.env, process.cwd()),
    async open(how) {
      const outbox = await openOutbox(await context.settings(), how);
      opened.push(outbox);
      return outbox;
    },
  };
  try {
    return await command.run(context, given);
  } finally {
    terminal.progress('');
    for (const outbox of opened) await outbox.close();
  }
}

function report(error: unknown, terminal: ProcessTerminal): ExitCode {
  // The parser has printed its help, or the version.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  const [code, text] = verdict(error);
  terminal.say(`nestjs-outbox: ${printable(text.replaceAll(/\s*\n\s*/g, ' ').trim())}`);
  return code;
}

function verdict(error: unknown): [ExitCode, string] {
  if (error instanceof CommanderError) return [EXIT.usage, error.message.replace(/^error: /, '')];
  if (error instanceof CliError) return [error.exitCode, error.message];
  const { message } = Object(error) as { message?: unknown };
  if (isWrongInput(error) && typeof message === 'string') return [EXIT.usage, message];
  return [EXIT.failed, errorText(error)];
}
