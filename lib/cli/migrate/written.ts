import type { OwnSession, Step, TablesDatabase } from '../../data-layers/tables/index.js';
import type { Tables } from './tables.js';

type Query = Pick<OwnSession, 'query'>;

/** The table in which TypeORM's migrator has a line for each migration that it ran. */
export interface Written {
  readonly names: ReadonlySet<string>;
  add(db: Query, step: Step): Promise<void>;
  remove(db: Query, steps: readonly Step[]): Promise<void>;
}

/** @returns `undefined`: no application with TypeORM is here. Where one is, the table is made as TypeORM makes it */
export async function writtenSteps(session: Query, { db, writtenIn }: Tables): Promise<Written | undefined> {
  const { query } = session;
  const name = writtenIn ?? 'migrations';
  const [value, other] = db.dialect === 'postgres' ? ['$1', '$2'] : ['?', '?'];
  const [row] = await query(
    `select count(*) from information_schema.columns where table_schema = ${value} and table_name = ${other}
      and column_name in ('timestamp', 'name')`,
    [db.schema, name],
  );
  const table = [db.schema, name].map((part) => quoted(db, String(part))).join('.');
  if (Number(row?.[0]) < 2) {
    if (writtenIn === undefined) return undefined;
    await query(`create table if not exists ${table} (${COLUMNS[db.dialect]})`);
  }
  const written = async (): Promise<ReadonlySet<string>> =>
    new Set((await query(`select name from ${table}`)).map(([step]) => String(step)));
  const names = await written();
  return {
    names,
    async add(tx, { name: step }) {
      if (!names.has(step))
        await tx.query(
          `insert into ${table} (${quoted(db, 'timestamp')}, name) values ('${step.slice(-13)}', '${step}')`,
        );
    },
    async remove(tx, steps) {
      for (const step of steps) await tx.query(`delete from ${table} where name = '${step.name}'`);
    },
  };
}

const COLUMNS = {
  postgres: 'id serial primary key, "timestamp" bigint not null, name varchar not null',
  mysql: 'id int not null auto_increment primary key, `timestamp` bigint not null, name varchar(255) not null',
} as const;

function quoted({ dialect }: TablesDatabase, name: string): string {
  const quote = dialect === 'postgres' ? '"' : '`';
  return quote + name.replaceAll(quote, quote + quote) + quote;
}
