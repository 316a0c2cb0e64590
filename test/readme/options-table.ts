import { OPTIONS_TABLE, type OptionRow } from '../../lib/options/table.js';

/** The rows of the table in docs/options.md, as they must stand there. */
export function optionsTable(): string[] {
  return OPTIONS_TABLE.map((row) => `| \`${row.name}\` | ${defaultOf(row)} | ${unitOf(row)} | ${row.reason} |`);
}

function defaultOf(row: OptionRow): string {
  if (row.defaultText !== undefined) return row.defaultText;
  return `\`${typeof row.default === 'number' ? grouped(row.default) : String(row.default)}\``;
}

/** The rule in words, short enough for a table. */
function unitOf({ name, rule: { allowed } }: OptionRow): string {
  const count = name.endsWith('Bytes') ? 'bytes' : 'number';
  return allowed
    .replace(/^a duration from (\S+) to ([^:]+): .*?(?=, or null|; or|$)/, 'duration, $1–$2')
    .replace(/^a whole number from (\d+) to (\d+)/, (_, from, to) => `${count}, ${grouped(from)}–${grouped(to)}`)
    .replace(/^lower-case letters.*at most (\d+) characters$/, 'name, up to $1 characters')
    .replaceAll(' | ', ', ')
    .replace(/'([^']+)'/g, '`$1`');
}

function grouped(value: number | string): string {
  return Number(value).toLocaleString('en-US');
}
