import { misconfigured } from '../../outbox.errors.js';
import { metaRows, SCHEMA_VERSION } from '../names.js';
import type { SchemaSettings } from '../outbox-store.js';

/** What to do about tables that are missing. */
export const RUN_MIGRATIONS =
  'Run npx nestjs-outbox migrate upgrade --module dist/app.module.js, the migrations of outboxMigrations(), or without TypeORM the SQL of npx nestjs-outbox migrate print; in development, database.setup: "create" makes them. If the migrations ran before and the tables are gone, run the up of outboxSql().';

/** What to do about tables that `create` left as they were. */
export const ADDS_ONLY =
  'database.setup "create" adds what is missing, and changes nothing that is there. In development drop these tables, and they are made anew.';

/** A migration that has run does nothing again: what differs since then is mended by hand. */
export const mendBy = (way: string): string =>
  `Do what stands in parentheses, as the owner of the tables.${way === ADDS_ONLY ? ` ${ADDS_ONLY}` : ''} Migrations that ran before change nothing here.`;

/**
 * What the tables were made with.
 * @param stored rows of the meta table
 * @param wayOut what changes these settings of tables that are there; `undefined`: nothing does
 */
export function checkMade(
  stored: ReadonlyMap<string, string>,
  wanted: SchemaSettings,
  meta: string,
  wayOut: (different: readonly string[]) => string | undefined,
): void {
  const version = stored.get('version');
  if (version !== String(SCHEMA_VERSION)) refuseVersion(version);
  const different = metaRows(wanted).filter(([name, value]) => stored.get(name) !== value);
  if (different.length === 0) return;
  const problems = different.map(
    ([name, value]) => `${name} is ${value} in the options and ${stored.get(name) ?? 'unknown'}`,
  );
  const way = wayOut(different.map(([name]) => name)) ?? 'move to new tables under another prefix';
  const hint = `All processes must agree: use the stored values, or ${way}.`;
  misconfigured(`${problems.join(', ')} in ${meta}.`, hint, 'SCHEMA_MISMATCH');
}

function refuseVersion(version: string | undefined): never {
  const hint =
    Number(version) > SCHEMA_VERSION
      ? 'They are of a later release: use that one, or revert its migration first.'
      : 'Run the migrations of outboxMigrations(), which have one for each version. What is in the tables stays.';
  const text = `The tables have version ${version ?? 'unknown'}, this release needs ${SCHEMA_VERSION}.`;
  misconfigured(text, hint, 'SCHEMA_MISMATCH');
}
