import type { OwnSession, Step, TablesDatabase } from '../../data-layers/tables/index.js';
import type * as Migrations from '../../data-layers/tables/index.js';
import type { OutboxSchemaOptions } from '../../index.js';
import { loadPackage } from '../connect/packages.js';
import { isMissing, tablesOf, type Reached } from '../connect/reach.js';

/** What tables were made with. */
export type Shape = Pick<OutboxSchemaOptions, 'buckets' | 'ordering' | 'coordination' | 'partitionedArchive'>;

/** The tables of one outbox, and what changes them. */
export interface Tables {
  readonly db: TablesDatabase;
  /** In the order of their versions. */
  readonly steps: readonly Step[];
  /** `undefined`: they are not there. */
  readonly version: number | undefined;
  /** Of this release. */
  readonly latest: number;
  /** Of an application with TypeORM: where its migrator writes down what it ran. */
  readonly writtenIn: string | undefined;
}

/** @param asked for tables that are not there; those that are there say it themselves */
export async function openMigrator(reached: Reached, asked: Shape, timeout: number): Promise<Tables> {
  const { place, folder, writtenIn } = reached;
  const { stepsOf } = await loadPackage<typeof Migrations>('nestjs-outbox/tables', folder);
  const db = await tablesOf(reached, timeout);
  const meta = await readMeta(db, db);
  const { prefix, schema } = place;
  const shape = meta === undefined ? asked : shapeOf(meta);
  const steps = stepsOf({ prefix, ...(schema === undefined ? {} : { schema }), ...shape });
  const latest = Math.max(...steps.map(({ version }) => version));
  return { db, steps, version: versionIn(meta), latest, writtenIn };
}

function shapeOf(meta: ReadonlyMap<string, string>): Shape {
  return {
    buckets: Number(meta.get('buckets')),
    ordering: meta.get('ordering') as NonNullable<Shape['ordering']>,
    coordination: meta.get('coordination') as NonNullable<Shape['coordination']>,
  };
}

const versionIn = (meta: ReadonlyMap<string, string> | undefined): number | undefined =>
  meta === undefined ? undefined : Number(meta.get('version'));

export const readVersion = async (session: OwnSession, { db }: Tables): Promise<number | undefined> =>
  versionIn(await readMeta(session, db));

/** @returns `undefined`: there are no tables, or they are only being made (MariaDB, MySQL) */
async function readMeta(
  { query }: Pick<OwnSession, 'query'>,
  { names }: TablesDatabase,
): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    const meta = new Map((await query(`select name, value from ${names.meta}`)) as [string, string][]);
    return meta.has('version') && meta.has('buckets') ? meta : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
