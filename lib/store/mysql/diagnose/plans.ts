import type { PlanFacts } from '../../diagnose/diagnose-store.js';
import type { SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { rowsOf } from '../../rows-of.js';
import type { MysqlCapabilities } from '../capabilities.js';

interface Question {
  readonly statement: string;
  readonly table: string;
  readonly wanted: string;
  readonly text: string;
}

/** Each with the index that the statements of the relay name. */
function questions({ ready, parked, archive }: TableNames): Question[] {
  return [
    {
      statement: 'read what is ready',
      table: ready,
      wanted: 'PRIMARY',
      text: `select h.id from ${ready} h force index (primary) where h.transport = 0 and h.bucket = 0 and h.seq > 0 order by h.seq limit 1`,
    },
    {
      statement: 'poll for what is due',
      table: parked,
      wanted: 'due',
      text: `select p.parked_id from ${parked} p force index (due) where p.transport = 0 and p.bucket = 0 and p.due_at <= utc_timestamp(6)
        order by p.due_at, p.seq limit 1`,
    },
    {
      statement: 'look for keys that are blocked',
      table: parked,
      wanted: 'by_key',
      text: `select 1 from ${parked} p force index (by_key) where p.transport = 0 and p.bucket = 0 and p.blocking = 1 and p.\`key\` = 'k' limit 1`,
    },
    {
      statement: 'tell of the dead',
      table: parked,
      wanted: 'by_state',
      text: `select p.parked_id from ${parked} p force index (by_state) where p.transport = 0 and p.state = 4 and p.announced = 0
        order by p.died_at, p.parked_id limit 1`,
    },
    {
      statement: 'clean the archive',
      table: archive,
      wanted: 'by_time',
      text: `select a.archive_id from ${archive} a where a.published_at < utc_timestamp(6) order by a.published_at limit 1`,
    },
  ];
}

/** `ER_KEY_DOES_NOT_EXITS`: the server refuses a statement that names an index which is not there. */
const NO_SUCH_KEY = 1176;

export async function readPlans(
  db: SqlExecutor,
  names: TableNames,
  { explainKey }: MysqlCapabilities,
): Promise<PlanFacts[]> {
  const plans: PlanFacts[] = [];
  for (const { text, ...question } of questions(names)) {
    const key = await keyOf(db, text, explainKey);
    plans.push({ ...question, index: key });
  }
  return plans;
}

/** On an empty table MySQL and MariaDB may plan nothing at all: no table, and no key. */
async function keyOf(db: SqlExecutor, text: string, column: number): Promise<string | null> {
  try {
    const [row] = await rowsOf(db, `explain ${text}`);
    const key = row?.[column] ?? null;
    return key === null ? null : String(key);
  } catch (error) {
    if ((error as { errno?: unknown }).errno === NO_SUCH_KEY) return null;
    throw error;
  }
}
