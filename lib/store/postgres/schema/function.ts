import { tableNames, type SchemaDefinition, type TableNames } from '../../names.js';
import { PINNED_PATH } from './catalog.js';

/** What of a function beside its body decides what it does, and as whom. Read by the DDL and by the check at start. */
export interface FunctionShape {
  readonly takes: string;
  readonly returns: string;
  readonly volatility: 'stable' | 'volatile';
  /** Runs with the rights of its owner; then nobody else may put it behind a trigger of his own. */
  readonly definer: boolean;
  readonly settings: Readonly<Record<string, string>>;
}

/** Whatever is unqualified in a body, an operator too, is PostgreSQL's: not what the caller's path, or his temporary tables, offer. */
const PINNED = { search_path: PINNED_PATH };

export const FUNCTIONS: Readonly<Record<'payload_text' | 'messages_insert' | 'staged_move', FunctionShape>> = {
  payload_text: { takes: 'payload bytea', returns: 'text', volatility: 'stable', definer: false, settings: PINNED },
  messages_insert: { takes: '', returns: 'trigger', volatility: 'volatile', definer: false, settings: PINNED },
  staged_move: {
    takes: '',
    returns: 'trigger',
    volatility: 'volatile',
    definer: true,
    settings: {
      ...PINNED,
      enable_seqscan: 'off',
      enable_bitmapscan: 'off',
      // The locks that it takes are open to every login of the database: one that is held for good fails a COMMIT, and stops none.
      lock_timeout: '10s',
    },
  },
};
export type FunctionName = keyof typeof FUNCTIONS;

/** Stands where the schema of SQL as text will be. */
const UNKNOWN_SCHEMA = '@schema@';
const UNKNOWN = `"${UNKNOWN_SCHEMA}"`;

/**
 * In the body all tables have their schema. SQL as text may have none: it is that in which the text is run, put in then.
 * @param body between the dollar quotes, for names that have their schema
 */
export function createFunction(
  definition: SchemaDefinition,
  name: FunctionName,
  body: (names: TableNames) => string,
): string {
  const { schema, prefix } = definition;
  const names = tableNames({ schema: schema ?? UNKNOWN_SCHEMA, prefix }, '"');
  const { takes, returns, volatility, definer, settings } = FUNCTIONS[name];
  const set = Object.entries(settings).map(
    ([key, value]) => `set ${key} = ${key === 'search_path' ? value : `'${value}'`}`,
  );
  const text = `create or replace function ${names.object(name)}(${takes}) returns ${returns} language plpgsql ${volatility} security ${definer ? 'definer' : 'invoker'}
${set.join(' ')} as $outbox$${body(names)}$outbox$`;
  if (schema !== undefined) return text;
  const found = `'"' || pg_catalog.replace(pg_catalog.current_schema()::text, '"', '""') || '"'`;
  return `do $create$ begin execute pg_catalog.replace($text$${text}$text$, '${UNKNOWN}', ${found}); end $create$`;
}
