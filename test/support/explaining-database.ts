import type { ConnectionRole, SqlConnection, SqlDatabase, SqlExecutor, SqlResult } from '../../lib/store/executor.js';
import { statement, type Sql } from '../../lib/store/sql.js';

export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Actual Rows'?: number;
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
  readonly Plans?: readonly PlanNode[];
}
export interface Explained {
  readonly name: string;
  readonly plan: PlanNode;
  readonly analyzed: boolean;
}

const UNDO = new Error('undo');

/** Explains each named statement as it is prepared in the session that runs it, with the values it runs with; then runs it. */
export class ExplainingDatabase implements SqlDatabase {
  readonly explained: Explained[] = [];
  explaining = false;

  constructor(readonly real: SqlDatabase) {}

  connection(role: ConnectionRole): SqlConnection {
    return this.wrap(this.real.connection(role));
  }

  publishing(transport: number): SqlConnection {
    return this.wrap(this.real.publishing?.(transport) ?? this.real.connection('read'));
  }

  /** @internal */ wrap(real: SqlConnection): SqlConnection {
    return {
      get generation() {
        return real.generation;
      },
      run: async (sql) => {
        if (this.explaining && sql.statement.name !== undefined) {
          const undone = real.transaction(async (tx) => {
            await this.explain(tx, sql, true);
            throw UNDO;
          });
          await undone.catch((error: unknown) => {
            if (error !== UNDO) throw error;
          });
        }
        return real.run(sql);
      },
      transaction: (work) => real.transaction((tx, ended) => work(this.within(tx), ended)),
    };
  }

  close(): Promise<void> {
    return this.real.close();
  }

  /** @internal */ within(tx: SqlExecutor): SqlExecutor {
    return {
      run: async (sql): Promise<SqlResult> => {
        if (this.explaining && sql.statement.name !== undefined) await this.explain(tx, sql, false);
        return tx.run(sql);
      },
    };
  }

  /** @internal */ async explain(
    tx: SqlExecutor,
    { statement: { name }, values }: Sql,
    analyze: boolean,
  ): Promise<void> {
    const list = values
      .map((value) => (value === null ? 'null' : `'${String(value).replaceAll(`'`, `''`)}'`))
      .join(', ');
    const options = analyze ? 'analyze, buffers, timing off, format json' : 'format json';
    const text = `explain (${options}) execute ${name}${list === '' ? '' : `(${list})`}`;
    const { rows } = await tx.run(statement(undefined, text).bind());
    const [{ Plan: plan }] = JSON.parse(rows[0]?.[0] as string) as [{ Plan: PlanNode }];
    this.explained.push({ name: name as string, plan, analyzed: analyze });
  }
}

export function nodesOf(plan: PlanNode): PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}
