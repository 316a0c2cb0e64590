import type { SqlExecutor } from '../../executor.js';
import { literal, quoteWith, type SchemaDefinition, type TableNames } from '../../names.js';
import { FUNCTIONS, type FunctionName } from './function.js';
import { postgresSchema } from './schema.js';
import { rowsOf } from '../statement.js';

export const AGAIN = '(run the up of outboxSql() again)';
const TYPES: Readonly<Record<FunctionName, string>> = { messages_insert: '', payload_text: 'bytea', staged_move: '' };

/** A row of: name, text, whether it runs as its owner, its settings, the owner that it should have, whether all may call it. */
type Found = readonly [
  name: string,
  body: string,
  definer: string,
  settings: string | null,
  owned: string,
  open: string,
];

/**
 * By their text, which the server keeps as it was given, up to white space and the schema, and by what decides as whom they
 * run and what an unqualified name means in them. So whoever changes one of them has to raise the version of the tables.
 */
export async function compareFunctions(
  db: SqlExecutor,
  names: TableNames,
  definition: SchemaDefinition,
): Promise<string[]> {
  const wanted = (Object.keys(FUNCTIONS) as FunctionName[]).flatMap((suffix) => {
    const text = postgresSchema(definition).up.find((each) =>
      each.includes(`create or replace function ${names.object(suffix)}(`),
    );
    const name = `${names.object(suffix)}(${TYPES[suffix]})`;
    return text === undefined ? [] : [{ suffix, name, body: text.split('$outbox$')[1] as string }];
  });
  const list = wanted.map(({ name }) => `(${literal(name)})`).join(', ');
  const rows = await rowsOf(
    db,
    `select w.name, p.prosrc, p.prosecdef, array_to_string(p.proconfig, chr(10)), case when p.proowner <> c.relowner then format('%I', pg_get_userbyid(c.relowner)) end, has_function_privilege('public', p.oid, 'execute')
       from (values ${list}) w(name) join pg_proc p on p.oid = to_regprocedure(w.name)
       join pg_class c on c.oid = to_regclass(${literal(names.ready)})`,
  );
  const found = new Map((rows as unknown as readonly Found[]).map((row) => [row[0], row]));
  return wanted.flatMap(({ suffix, name, body }) => {
    const row = found.get(name);
    if (row === undefined) return [`the function ${name} is missing ${AGAIN}`];
    return difference(suffix, row, plain(body, definition), definition);
  });
}

function difference(suffix: FunctionName, row: Found, body: string, definition: SchemaDefinition): string[] {
  const [name, text, definer, settings, owner, open] = row;
  const wanted = FUNCTIONS[suffix];
  if (plain(text, definition) !== body) return [`the function ${name} is not that of this release ${AGAIN}`];
  const found: string[] = [];
  if (owner !== null) {
    found.push(
      `the function ${name} does not belong to the owner of the tables (run: alter function ${name} owner to ${owner})`,
    );
  }
  if (wanted.definer && definer !== 't') found.push(`the function ${name} is security invoker ${AGAIN}`);
  if (!hasSettings(settings, wanted.settings))
    found.push(`the function ${name} has other settings (search_path) ${AGAIN}`);
  if (wanted.definer && open === 't') found.push(`everybody may execute the function ${name} ${AGAIN}`);
  return found;
}

/** As the server keeps them: `name=value`, one a line, with names in quotes if they were so. Others beside them are nobody's harm. */
function hasSettings(found: string | null, wanted: Readonly<Record<string, string>>): boolean {
  const lines = new Set((found ?? '').replaceAll('"', '').split('\n'));
  return Object.entries(wanted).every(([name, value]) => lines.has(`${name}=${value}`));
}

const plain = (body: string, { schema }: SchemaDefinition): string =>
  (schema === undefined ? body : body.replaceAll(`${quoteWith('"', schema)}.`, '')).replace(/\s+/g, ' ').trim();
