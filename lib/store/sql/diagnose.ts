import {
  ROW_OVERHEAD,
  ROW_SAMPLE,
  type BacklogDestination,
  type DiagnoseStore,
  type Facts,
  type GrowthFacts,
  type SnapshotFacts,
  type TableFacts,
} from '../diagnose/diagnose-store.js';
import type { SqlExecutor } from '../executor.js';
import type { TableNames } from '../names.js';
import { rowsOf, type Rows } from '../rows-of.js';

/** How one database answers each question. What it has no such thing of is absent. */
export type Questions = { readonly [Name in keyof Facts]?: () => Promise<Facts[Name]> };

export class Diagnosis implements DiagnoseStore {
  private readonly questions: Questions;

  constructor(questions: Omit<Questions, 'oldestSnapshot'>) {
    this.questions = { ...questions, oldestSnapshot: () => this.oldestSnapshot() };
  }

  async ask<Name extends keyof Facts>(name: Name): Promise<Facts[Name] | undefined> {
    return this.questions[name]?.();
  }

  /** Without the right nothing is asked that the server would refuse. */
  private async oldestSnapshot(): Promise<SnapshotFacts> {
    const held = await this.ask('heldSnapshot');
    if (held !== undefined && 'needs' in held) return { age: null, transactions: null };
    const none = held === undefined ? 0 : null;
    return { age: held?.age ?? none, transactions: (await this.ask('unpurged')) ?? held?.distance ?? none };
  }
}

/** @param rows without prefix, name, bytes, live and dead rows, last vacuum as ISO text, and 1 where autovacuum looks after it */
export function readTables(rows: Rows): TableFacts[] {
  return rows.map(([table, name, bytes, live, dead, vacuumed, isVacuumedBySelf]) => ({
    table: String(table),
    name: String(name),
    bytes: Number(bytes),
    liveRows: Number(live),
    deadRows: isNone(dead) ? null : Number(dead),
    lastVacuum: isNone(vacuumed) ? null : new Date(String(vacuumed)),
    isVacuumedBySelf: Number(isVacuumedBySelf) === 1,
  }));
}

/** @param rows one: the last number, the time, number and time of an earlier row, and the average bytes; times in milliseconds */
export function readGrowth([row = []]: Rows, highest: bigint): GrowthFacts {
  const [last, at, seq, since, bytes] = row;
  return {
    last: String(last),
    highest: String(highest),
    at: Number(at),
    earlier: isNone(seq) ? null : { seq: String(seq), at: Number(since) },
    rowBytes: isNone(bytes) ? null : Math.round(Number(bytes)) + ROW_OVERHEAD,
  };
}

const isNone = (value: unknown): boolean => value === null || value === undefined;

/** A scalar: the average bytes of some rows. @param bytesOf of a column of the row `o` */
export function averageBytes(
  { ready, parked, archive }: TableNames,
  bytesOf: (column: string) => string,
  key: string,
): string {
  const size = ['payload', 'headers', 'topic', key, 'type'].map((column) => `coalesce(${bytesOf(`o.${column}`)}, 0)`);
  const sizes = [ready, parked, archive].map(
    (table) => `(select ${size.join(' + ')} size from ${table} o limit ${ROW_SAMPLE})`,
  );
  return `(select sum(size) / count(*) from (${sizes.join(' union all ')}) s having count(*) > 0)`;
}

export async function readDestinations(db: SqlExecutor, { ready, parked }: TableNames): Promise<BacklogDestination[]> {
  const some = (table: string): string =>
    `(select o.transport, o.topic, o.options from ${table} o limit ${ROW_SAMPLE})`;
  const rows = await rowsOf(
    db,
    `select distinct x.transport, x.topic, x.options from (${some(ready)} union all ${some(parked)}) x limit 200`,
  );
  return rows.map(([transport, topic, options]) => ({
    transport: Number(transport),
    topic: String(topic),
    options: options === null ? null : String(options),
  }));
}
