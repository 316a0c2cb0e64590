import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { OPTIONS_TABLE, type OptionRow } from '../../lib/options/table.js';
import { documents, ROOT } from './documents.js';

/** A row of the page of options. */
export interface OptionCells {
  readonly name: string;
  readonly what: string;
  readonly default: string;
  readonly allowed: string;
  readonly why: string;
}

/** Options without a row in the code's table: the start needs the first two, Nest the others before any value is checked. */
export const UNCHECKED: Readonly<Record<string, Pick<OptionCells, 'default' | 'allowed'>>> = {
  transports: { default: 'required', allowed: 'an object with one transport at least' },
  dataLayer: { default: 'the TypeORM DataSource', allowed: 'a [data layer](data-layers.md)' },
  name: { default: '`default`', allowed: 'a text' },
  isGlobal: { default: '`true`', allowed: 'true, false' },
  dataSource: { default: 'the unnamed one', allowed: 'a name, a DI token, a DataSource' },
};

/** Default and allowed values of each option, as the page must have them. */
export function optionsOfTheCode(): Record<string, Pick<OptionCells, 'default' | 'allowed'>> {
  const checked = OPTIONS_TABLE.map((row) => [row.name, { default: defaultOf(row), allowed: unitOf(row) }]);
  return { ...UNCHECKED, ...Object.fromEntries(checked) };
}

export function optionsOfThePage(): OptionCells[] {
  return optionRows(documents().find(({ path }) => path === 'docs/options.md')?.text ?? '').map((cells) => {
    const [name = '', what = '', byDefault = '', allowed = '', why = ''] = cells;
    return { name: name.replaceAll('`', ''), what, default: byDefault, allowed, why };
  });
}

/** Cells of the rows whose first cell is an option. */
export function optionRows(text: string): string[][] {
  const names = Object.keys(optionsOfTheCode()).map((name) => `\`${name}\``);
  const rows = text.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((row) => row.slice(2, -2).split(' | ')).filter(([first = '']) => names.includes(first));
}

/** What an editor shows: the first paragraph of the comment of each member, `retry.initial` for a member of a member. */
export function commentsOf(file: string, ...interfaces: string[]): Map<string, string> {
  const source = ts.createSourceFile(file, readFileSync(join(ROOT, file), 'utf8'), ts.ScriptTarget.ES2023, true);
  const declared = new Map(source.statements.filter(ts.isInterfaceDeclaration).map((one) => [one.name.text, one]));
  const found = new Map<string, string>();
  const add = (members: ts.NodeArray<ts.TypeElement>, path: string): void => {
    for (const member of members.filter(ts.isPropertySignature)) {
      const name = `${path}${member.name.getText()}`;
      found.set(name, firstParagraph(member));
      if (member.type !== undefined && ts.isTypeLiteralNode(member.type)) add(member.type.members, `${name}.`);
      const inner = member.type === undefined ? undefined : declared.get(member.type.getText());
      if (inner !== undefined) add(inner.members, `${name}.`);
    }
  };
  for (const name of interfaces) add((declared.get(name) as ts.InterfaceDeclaration).members, '');
  return found;
}

function firstParagraph(member: ts.Node): string {
  const [comment] = ts.getJSDocCommentsAndTags(member);
  const text = comment === undefined ? '' : comment.getText().replace(/^\/\*\*|\*\/$/g, '');
  return (
    text
      .replace(/^ *\* ?/gm, '')
      .trim()
      .split(/\n\s*\n/)[0] ?? ''
  ).replace(/\s+/g, ' ');
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
