import { milliseconds } from '../time/duration.js';
import type { CliOption } from './command.js';
import { refuseUsage } from './exit-code.js';

/** Where the outbox is. */
export const CONNECTION_OPTIONS: readonly CliOption[] = [
  { flags: '-c, --config <file>', help: 'config file; default: outbox.config.{js,mjs,cjs,json} in this folder' },
  { flags: '-m, --module <file>', help: 'compiled file of the application’s module, such as dist/app.module.js' },
  { flags: '--export <name>', help: 'which export of that file is the module; default: AppModule' },
  { flags: '--outbox <name>', help: 'the outbox, where the application has several' },
  { flags: '--url <url>', help: 'database without a password; with one: OUTBOX_DATABASE_URL' },
  { flags: '--schema <name>', help: 'PostgreSQL schema, or MySQL database, of the tables' },
  { flags: '--prefix <text>', help: 'prefix of the tables; default: outbox_' },
  { flags: '--timeout <duration>', help: 'for connecting, and for each answer; default: 30s', read: readDuration },
];

export const OUTPUT_OPTIONS: readonly CliOption[] = [
  { flags: '--json', help: 'print JSON, for programs' },
  { flags: '--no-color', help: 'print no colors' },
];

/** @returns milliseconds. @throws CliError */
export function readDuration(text: string): number {
  return milliseconds(text) ?? refuseUsage("It must be a duration such as '30s' or '5m'.");
}
