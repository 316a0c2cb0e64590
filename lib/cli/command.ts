import type { Interrupt } from './interrupt.js';
import type { ExitCode } from './exit-code.js';
import type { Settings } from './connect/settings.js';
import type { Opening, OpenOutbox } from './connect/open-outbox.js';
import type { Terminal } from './terminal.js';

/** SEAM: one command. It is a file of its own, and stands in the table of commands.ts: parser, help and completion read that. */
export interface CliCommand {
  readonly name: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** As the parser writes them: `<id>`, `[ids...]`. */
  readonly args?: string;
  /** What the first argument must be one of. */
  readonly argChoices?: readonly string[];
  /** Beside the options that every command has. */
  readonly options?: readonly CliOption[];
  /** Whether it reads the settings of a database: then it has the options of the connection. Default true. */
  readonly connects?: boolean;
  run(context: CliContext, given: Given): Promise<ExitCode>;
}

export interface CliOption {
  /** `--type <name>`, `-y, --yes`. */
  readonly flags: string;
  readonly help: string;
  readonly choices?: readonly string[];
  /** May be given several times: the values are an array. */
  readonly many?: boolean;
  /** Checks and converts the text. @throws CliError */
  readonly read?: (text: string) => unknown;
}

export interface Given {
  readonly args: readonly string[];
  /** By their names in camel case: `olderThan`. Absent: not given. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** What a command works with. Nothing is opened before it asks. */
export interface CliContext {
  readonly terminal: Terminal;
  readonly interrupt: Interrupt;
  /** `--json`. */
  readonly json: boolean;
  readonly commands: readonly CliCommand[];
  /** From the command line, the environment and the config file. @throws CliError exit code 2 */
  settings(): Promise<Settings>;
  /** The outbox, open, with a relay that does not run. It is closed when the command ends. */
  open(how?: Opening): Promise<OpenOutbox>;
}
