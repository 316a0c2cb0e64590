import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { packageVersion } from '../connect/packages.js';
import type { TablesDatabase } from '../../data-layers/tables/index.js';

/** What was measured. */
export interface Versions {
  readonly outbox: string;
  readonly node: string;
  /** As the server says it. */
  readonly server: string;
  /** `pg 8.23.0`. */
  readonly driver: string;
}

export async function readVersions(db: TablesDatabase, folder: string): Promise<Versions> {
  const [row] = await db.query('select version()');
  const driver = db.dialect === 'postgres' ? 'pg' : 'mysql2';
  return {
    outbox: packageVersion(),
    node: process.versions.node,
    server: String(row?.[0]),
    driver: `${driver} ${versionOf(driver, folder)}`,
  };
}

/** Of a package as the application has it, or beside this file. */
function versionOf(name: string, folder: string): string {
  for (const base of [join(folder, 'any.js'), process.argv[1] as string]) {
    try {
      const file = createRequire(base).resolve(`${name}/package.json`);
      return String((JSON.parse(readFileSync(file, 'utf8')) as { version?: unknown }).version);
    } catch {
      continue;
    }
  }
  return 'of an unknown version';
}
