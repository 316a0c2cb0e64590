import { milliseconds } from '../time/duration.js';
import type { CliCommand, CliOption } from './command.js';
import { refuseUsage } from './exit-code.js';
import { isWait } from './wait.js';

/** Where the outbox is. */
const CONNECTION_OPTIONS: readonly CliOption[] = [
  { flags: '-c, --config <file>', help: 'config file; default: outbox.config.{js,mjs,cjs,json} in this folder' },
  {
    flags: '-m, --module <file>',
    help: 'compiled file of the application’s module, such as dist/app.module.js; or OUTBOX_MODULE',
  },
  { flags: '--export <name>', help: 'which export of that file is the module; default: AppModule' },
  { flags: '--outbox <name>', help: 'the outbox, where the application has several' },
  { flags: '--url <url>', help: 'database without a password; with one: OUTBOX_DATABASE_URL' },
  { flags: '--schema <name>', help: 'PostgreSQL schema, or MySQL database, of the tables; or OUTBOX_SCHEMA' },
  { flags: '--prefix <text>', help: 'prefix of the tables; or OUTBOX_PREFIX; default: outbox_' },
  { flags: '--timeout <duration>', help: 'for connecting, and for each answer; default: 30s', read: readWait },
];

const OUTPUT_OPTIONS: readonly CliOption[] = [
  { flags: '--json', help: 'print JSON, for programs' },
  { flags: '--no-color', help: 'print no colors' },
];

/** Those of the command, then those that all have. */
export function optionsOf({ options = [], connects = true }: CliCommand): readonly CliOption[] {
  return [...options, ...(connects ? CONNECTION_OPTIONS : []), ...OUTPUT_OPTIONS];
}

/** @returns milliseconds. @throws CliError */
export function readDuration(text: string): number {
  return milliseconds(text) ?? refuseUsage("It must be a duration such as '30s' or '5m'.");
}

/** Of an option for which the command waits. @returns milliseconds. @throws CliError */
export function readWait(text: string): number {
  const ms = readDuration(text);
  return isWait(ms) ? ms : refuseUsage('It must be 1ms at least and 1d at most.');
}
