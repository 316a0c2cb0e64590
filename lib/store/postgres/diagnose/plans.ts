import type { PlanFacts } from '../../diagnose/diagnose-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Sql } from '../../sql.js';
import { parkedStatements } from '../parked/statements.js';
import { readyStatements } from '../ready/statements.js';
import { statement } from '../statement.js';

interface Question {
  readonly statement: string;
  readonly table: string;
  /** Without the prefix. */
  readonly wanted: string;
  readonly sql: Sql;
}
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly Plans?: readonly PlanNode[];
}

/** The statements of the relay, with values that find nothing. */
export function planQuestions(names: TableNames, { ordering }: Pick<StoreSettings, 'ordering'>): Question[] {
  const ready = readyStatements(names, 0);
  const parked = parkedStatements(names, ordering, 0);
  return [
    {
      statement: 'read what is ready',
      table: names.ready,
      wanted: 'ready_pkey',
      sql: explained(ready.fetch.text.bind(false, '{0}', '{0}', '{0}', 0, 1, 1)),
    },
    {
      statement: 'poll for what is due',
      table: names.parked,
      wanted: 'parked_due',
      sql: explained(parked.due.bind('{0}', 0, '{0}', 0, 0, 1, 1)),
    },
    {
      statement: 'look for keys that are blocked',
      table: names.parked,
      wanted: 'parked_blocking',
      sql: explained(parked.blockedAmong.bind('{0}', '{k}', 0)),
    },
    {
      statement: 'clean the archive',
      table: names.archive,
      wanted: 'archive_pkey',
      sql: explained(
        statement(
          undefined,
          `select o.ctid from ${names.archive} o where o.published_at < clock_timestamp() order by o.published_at limit ?`,
        ).bind(1),
      ),
    },
  ];
}

/** An archive in partitions has its indexes in each of them. */
const PART = /(archive)_.+(?=_pkey)/;

function explained({ statement: { questionMarks }, values }: Sql): Sql {
  return statement(undefined, `explain (format json) ${questionMarks}`).bind(...values);
}

/** @param prefix of the outbox's names */
export function readPlan(json: unknown, { statement: name, table, wanted }: Question, prefix: string): PlanFacts {
  const [{ Plan: plan }] = (typeof json === 'string' ? JSON.parse(json) : json) as [{ Plan: PlanNode }];
  const relation = unquoted(table);
  const indexes = nodes(plan).flatMap((node) => {
    const index = node['Index Name'];
    if (index?.startsWith(prefix + wanted.split('_')[0]) === true)
      return [index.replace(PART, '$1').replace(/\d+$/, '')];
    return node['Relation Name'] === relation ? [null] : [];
  });
  const index = indexes.includes(null)
    ? null
    : (indexes.find((each) => each !== prefix + wanted) ?? indexes[0] ?? null);
  return { statement: name, table, wanted: prefix + wanted, index };
}

const nodes = (plan: PlanNode): PlanNode[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)];
const unquoted = (name: string): string => name.slice(name.lastIndexOf('.') + 1).replaceAll('"', '');
