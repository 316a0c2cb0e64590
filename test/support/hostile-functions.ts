import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { createTestDatabase, type TestDatabase } from './databases.js';
import { requiredUrl } from './services.js';

/** Where all SQL for PostgreSQL is. */
const SOURCES = ['lib/store/postgres', 'lib/store', 'lib/data-layers/typeorm', 'lib/enqueue', 'lib/transaction'];
export const sqlSources = (): readonly string[] => [
  ...new Set(
    SOURCES.flatMap((folder) =>
      readdirSync(folder, { recursive: folder === 'lib/store/postgres', encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts') && !name.includes('mysql'))
        .map((name) => join(folder, name)),
    ),
  ),
];

/** What stands between quotes in them. */
export function sqlTexts(): { readonly file: string; readonly text: string }[] {
  return sqlSources().flatMap((file) => {
    const texts: { file: string; text: string }[] = [];
    const visit = (node: ts.Node): void => {
      if (
        ts.isStringLiteralLike(node) ||
        ts.isTemplateHead(node) ||
        ts.isTemplateMiddle(node) ||
        ts.isTemplateTail(node)
      )
        texts.push({ file, text: node.text });
      ts.forEachChild(node, visit);
    };
    visit(ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ESNext));
    return texts;
  });
}

/** What is written like a call anywhere in these files, and is the name of a function of PostgreSQL's. */
export async function calledNames(admin: DataSource): Promise<string[]> {
  const words = new Set(
    sqlSources().flatMap((file) => readFileSync(file, 'utf8').match(/[a-z_][a-z0-9_]*(?=\()/g) ?? []),
  );
  const found: { name: string }[] = await admin.query(
    `select distinct proname::text as name from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname = any($1)`,
    [[...words]],
  );
  return found.map(({ name }) => name).sort();
}

const TEXTS = ['text', 'name', '"char"', 'bytea', 'uuid', 'jsonb', 'json'];
const NUMBERS = ['int2', 'int4', 'int8', 'float8', 'numeric', 'timestamptz', 'timestamp', 'interval', 'xid8', 'oid'];
const ARRAYS = ['int2[]', 'int4[]', 'int8[]', 'text[]', 'uuid[]', 'bool[]'];
const OTHERS = ['bool', 'regclass', 'regtype', 'regproc', 'regnamespace', 'pg_snapshot'];
const TYPES = [...TEXTS, ...NUMBERS, ...ARRAYS, ...OTHERS];
const OPERATORS: readonly (readonly [operators: readonly string[], types: readonly string[]])[] = [
  [['=', '<>', '<', '>', '<=', '>='], TYPES],
  [['+', '-', '*', '/', '%', '&', '|', '<<'], NUMBERS],
  [['||'], [...TEXTS, ...ARRAYS, 'int4']],
  [['~', '~~', '!~~'], TEXTS],
];
const list = (texts: readonly string[]): string => `array[${texts.map((text) => `'${text}'`).join(', ')}]::text[]`;

/**
 * What anybody makes who may create in a schema of the search path: for each function and aggregate of PostgreSQL's that SQL of
 * ours could call one of the same name that fits some arguments better, and operators for pairs of types that have none of
 * their own. Each notes in a sequence, which no rollback takes back, that it ran, and fails.
 */
async function makeStrangers(admin: DataSource): Promise<void> {
  await admin.query(
    'create schema strangers; create sequence strangers.ran; grant all on all sequences in schema strangers to public',
  );
  const names = await calledNames(admin);
  await admin.query(`
do $do$
declare
  body text := 'begin perform pg_catalog.nextval(''strangers.ran''); raise exception ''code of a stranger''; end';
  f text; a text; b text; o text;
begin
  foreach f in array ${list(names)} loop
    foreach a in array ${list(TYPES)} loop
      begin
        if exists (select from pg_proc p where p.proname = f and p.prokind = 'a') then
          execute format('create function strangers.step_%s(bigint, %s) returns bigint language plpgsql as %L', f, a, body);
          execute format('create aggregate strangers.%I(%s) (sfunc = strangers.step_%s, stype = bigint, initcond = ''0'')', f, a, f);
        else
          execute format('create function strangers.%I(%s) returns %s language plpgsql as %L', f, a, a, body);
        end if;
      exception when others then null; end;
      continue when not exists (select from pg_proc p where p.proname = f and (p.pronargs = 2 or p.provariadic <> 0));
      foreach b in array array['text','name','int4','int8','bool','text[]','int4[]'] loop
        begin
          execute format('create function strangers.%I(%s, %s) returns text language plpgsql as %L', f, a, b, body);
        exception when others then null; end;
      end loop;
    end loop;
    begin execute format('create function strangers.%I(variadic text[]) returns json language plpgsql as %L', f, body); exception when others then null; end;
    begin execute format('create function strangers.%I(text, text, bool) returns text language plpgsql as %L', f, body); exception when others then null; end;
  end loop;
  foreach a in array ${list(TYPES)} loop
    foreach b in array ${list(TYPES)} loop
      execute format('create function strangers.stranger(%s, %s) returns bool language plpgsql as %L', a, b, body);
    end loop;
  end loop;
  ${OPERATORS.map(
    ([operators, types]) => `
  foreach o in array ${list(operators)} loop
    foreach a in array ${list(types)} loop
      foreach b in array ${list(types)} loop
        continue when exists (select from pg_operator where oprname = o and oprleft = a::regtype and oprright = b::regtype);
        execute format('create operator strangers.%s (function = strangers.stranger, leftarg = %s, rightarg = %s)', o, a, b);
      end loop;
    end loop;
  end loop;`,
  ).join('')}
end $do$`);
}

export interface HostileDatabase extends TestDatabase {
  /** Puts them into the search path of all sessions that begin from here on: the admin's, too. */
  invite(): Promise<void>;
  /** What anybody sends who looks, in such a session. */
  readonly admin: DataSource;
  strangerRan(): Promise<boolean>;
}

/** Databases with the same strangers in them, who are in nobody's path yet. */
export class HostileDatabases {
  /** @internal */ template: TestDatabase | undefined;

  async start(): Promise<void> {
    this.template = await createTestDatabase('postgres');
    const admin = await new DataSource(this.template.options).initialize();
    try {
      await makeStrangers(admin);
    } finally {
      await admin.destroy();
    }
  }

  async next(): Promise<HostileDatabase> {
    const { url } = this.template as TestDatabase;
    const name = new URL(url).pathname.slice(1);
    const database = await createTestDatabase('postgres', requiredUrl('postgres'), name);
    const admin = await new DataSource({ ...database.options, poolSize: 1 } as DataSourceOptions).initialize();
    return {
      ...database,
      admin,
      invite: async () => {
        await admin.query(
          'do $$ begin execute format($f$alter database %I set search_path = public, strangers$f$, current_database()); end $$',
        );
        await admin.query('set search_path = public, strangers');
        // They would run: what is called by its bare name, and what is compared with another type.
        for (const sql of [`select convert_from('\\x61'::bytea, 'UTF8')`, `select 1::oid = 'pg_class'::regclass`])
          await expect(admin.query(sql)).rejects.toThrow('code of a stranger');
        await admin.query('alter sequence strangers.ran restart');
      },
      strangerRan: async () => (await admin.query('select is_called from strangers.ran'))[0].is_called,
      drop: async () => {
        await admin.destroy();
        await database.drop();
      },
    };
  }

  async stop(): Promise<void> {
    await this.template?.drop();
  }
}
