import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { CliError } from './exit-code.js';
import type { CliCommand, CliOption, Given } from './command.js';
import type { Terminal } from './terminal.js';
import { packageVersion } from './connect/packages.js';
import { optionsOf } from './common-options.js';

/** What the command line asks for; `undefined`: nothing more than help. */
export interface Parsed {
  readonly command: CliCommand;
  readonly given: Given;
}

/** @throws CommanderError where it is wrong, or after help was printed */
export async function parse(
  argv: readonly string[],
  commands: readonly CliCommand[],
  terminal: Terminal,
): Promise<Parsed | undefined> {
  let parsed: Parsed | undefined;
  const program = new Command('nestjs-outbox')
    .description('Finds, explains and repairs messages of nestjs-outbox.')
    .version(packageVersion(), '-V, --version')
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing found or not healthy, 130 interrupted.',
    );
  silence(program, terminal);
  for (const command of commands) {
    const declared = program.command(command.name).summary(command.summary).description(command.summary);
    silence(declared, terminal);
    declare(declared, command);
    declared.action((...all: unknown[]) => {
      const args = (all.slice(0, -2) as (string | string[] | undefined)[]).flat().filter((arg) => arg !== undefined);
      parsed = { command, given: { args, options: declared.opts() } };
    });
  }
  await program.parseAsync(argv, { from: 'user' });
  return parsed;
}

/** The parser exits and prints nothing by itself: one place does. */
function silence(command: Command, terminal: Terminal): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => terminal.out(text.trimEnd()),
    writeErr: (text) => terminal.say(text.trimEnd()),
    outputError: () => {},
    getOutHelpWidth: () => Math.min(terminal.width, 100),
    getOutHasColors: () => terminal.colors,
  });
}

function declare(declared: Command, command: CliCommand): void {
  const { args, argChoices } = command;
  if (args !== undefined) {
    const argument = new Argument(args);
    declared.addArgument(argChoices === undefined ? argument : argument.choices(argChoices));
  }
  for (const option of optionsOf(command)) {
    const added = new Option(option.flags, option.help);
    if (option.choices !== undefined) added.choices(option.choices);
    if (option.read !== undefined || option.many === true) added.argParser(reader(option));
    declared.addOption(added);
  }
}

function reader({ read, many, choices }: CliOption): (text: string, before: unknown) => unknown {
  return (text, before) => {
    if (choices?.includes(text) === false) throw new InvalidArgumentError(`Allowed choices are ${choices.join(', ')}.`);
    const value = read === undefined ? text : readOrRefuse(read, text);
    return many === true ? [...((before as unknown[] | undefined) ?? []), value] : value;
  };
}

/** Its words with the name of the option, which the parser has. */
function readOrRefuse(read: (text: string) => unknown, text: string): unknown {
  try {
    return read(text);
  } catch (error) {
    if (error instanceof CliError) throw new InvalidArgumentError(error.message);
    throw error;
  }
}
