import type { CliCommand } from './command.js';
import { BUCKETS } from './commands/buckets.js';

/** All commands, in the order of the help. A new one is a line here. */
export const COMMANDS: readonly CliCommand[] = [BUCKETS];
