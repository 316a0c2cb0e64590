import type { OwnSession, Step, TablesDatabase } from '../../data-layers/tables/index.js';
import type * as Migrations from '../../data-layers/tables/index.js';
import type * as Inbox from '../../inbox/steps.js';
import type { OutboxSchemaOptions } from '../../index.js';
import { loadPackage } from '../connect/packages.js';
import { isMissing, tablesOf, type Reached } from '../connect/reach.js';

/** What tables were made with. */
export type Shape = Pick<OutboxSchemaOptions, 'buckets' | 'ordering' | 'coordination' | 'partitionedArchive'>;

/** The tables of one outbox or inbox, and what changes them. */
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
  /** What is there now. */
  readVersion(session: Query): Promise<number | undefined>;
}
type Query = Pick<OwnSession, 'query'>;

/** @param asked for tables that are not there; those that are there say it themselves */
export async function openMigrator(reached: Reached, asked: Shape, timeout: number, inbox: boolean): Promise<Tables> {
  const { place, folder, writtenIn } = reached;
  const db = await tablesOf(reached, timeout);
  const made = inbox ? await inboxOf(db, place, folder) : await outboxOf(db, asked, reached);
  return { ...made, db, version: await made.readVersion(db), latest: made.steps.at(-1)?.version ?? 0, writtenIn };
}

type Made = Pick<Tables, 'steps' | 'readVersion'>;

async function outboxOf(db: TablesDatabase, asked: Shape, { place, folder }: Reached): Promise<Made> {
  const { stepsOf } = await loadPackage<typeof Migrations>('nestjs-outbox/tables', folder);
  const meta = await ifThere(readMeta(db, db));
  const { prefix, schema } = place;
  const shape = meta === undefined ? asked : shapeOf(meta);
  const steps = stepsOf({ prefix, ...(schema === undefined ? {} : { schema }), ...shape });
  const readVersion = async (session: Query): Promise<number | undefined> => {
    const version = (await ifThere(readMeta(session, db)))?.get('version');
    return version === undefined ? undefined : Number(version);
  };
  return { steps, readVersion };
}

async function inboxOf({ dialect, schema }: TablesDatabase, place: Reached['place'], folder: string): Promise<Made> {
  const { inboxSteps, inboxVersion } = await loadPackage<typeof Inbox>('nestjs-outbox/inbox-steps', folder);
  const at = { prefix: place.prefix, schema: place.schema ?? schema };
  return { steps: inboxSteps(place), readVersion: (session) => ifThere(inboxVersion(session, dialect, at)) };
}

function shapeOf(meta: ReadonlyMap<string, string>): Shape {
  return {
    buckets: Number(meta.get('buckets')),
    ordering: meta.get('ordering') as NonNullable<Shape['ordering']>,
    coordination: meta.get('coordination') as NonNullable<Shape['coordination']>,
  };
}

/** @returns `undefined`: they are only being made (MariaDB, MySQL) */
async function readMeta({ query }: Query, { names }: TablesDatabase): Promise<ReadonlyMap<string, string> | undefined> {
  const meta = new Map((await query(`select name, value from ${names.meta}`)) as [string, string][]);
  return meta.has('version') && meta.has('buckets') ? meta : undefined;
}

/** @returns `undefined`: a table is not there */
const ifThere = <T>(answer: Promise<T>): Promise<T | undefined> =>
  answer.catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
