import type { AuditRequest, AuditRow, EndStep, KeptVersion, NewAction, ReopenStep } from '../operator-store.js';
import type { SqlExecutor, SqlResult } from '../executor.js';
import type { TableNames } from '../names.js';
import type { Sql } from '../sql.js';
import { ALWAYS, allOf, condition, whereOf, type Conditions } from './conditions.js';
import { readText, type Dialect } from './dialect.js';
import type { OperatorDatabase } from './operator-database.js';

/** Ends the transaction of a step whose action has ended: whatever it did is undone. */
class ActionEnded extends Error {}

/** @returns `undefined` when the action has ended */
export async function unlessEnded<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ActionEnded) return undefined;
    throw error;
  }
}

const RUNS = condition('ended_at is null');

/** Who did what. A row that has ended does not change any more. */
export class AuditTable {
  private readonly dialect: Dialect;
  private readonly table: string;
  private readonly parked: string;

  constructor(
    private readonly database: OperatorDatabase,
    { audit, parked }: TableNames,
    /** Deletes the oldest: milliseconds, limit. */
    private readonly cleaned: (age: number, limit: number) => Sql,
  ) {
    this.dialect = database.dialect;
    this.table = audit;
    this.parked = parked;
  }

  begin(tx: SqlExecutor, { action, actor, filter }: NewAction): Promise<string> {
    const { statement, returning } = this.dialect;
    const text = `insert into ${this.table} (action, actor, filter) values (?, ?, ?)${returning('audit_id')}`;
    return this.database.insert(tx, statement(undefined, text).bind(action, actor, filter));
  }

  /** In the transaction of what is counted. @param step of a replay, which only goes on from where it is known to be. @throws ActionEnded */
  async count(
    tx: SqlExecutor,
    audit: string,
    [done, skipped]: readonly [done: number, skipped: number],
    step?: { readonly from: string; readonly to: string },
  ): Promise<void> {
    const counts = condition('done = done + ?, skipped = skipped + ?', done, skipped);
    const set = step === undefined ? counts : allOf([counts, condition('filter = ?', step.to)]);
    const { affected } = await tx.run(this.update(set, audit, RUNS, this.known(step?.from)));
    if (affected === 0) throw new ActionEnded();
  }

  mark(audit: string, step: EndStep | ReopenStep): Sql {
    const known = this.known(step.from);
    if (step.do === 'end') {
      const ended = condition(`outcome = ?, error = ?, ended_at = ${this.dialect.now}`, step.outcome, step.error);
      return this.update(ended, audit, RUNS, known);
    }
    const opened = condition('filter = ?, outcome = null, error = null, ended_at = null', step.to);
    return this.update(opened, audit, condition(`action = 'replay' and coalesce(outcome, '') <> 'done'`), known);
  }

  /** What a row that is edited was until now. */
  keep(
    audit: string,
    { id, kept, rowId }: { readonly id: string; readonly kept: string; readonly rowId: string },
  ): Sql {
    const payload = `(select o.payload from ${this.parked} o where o.parked_id = ?)`;
    const set = `message_id = ?, kept = ?, kept_payload = ${payload}`; // the payload does not leave the server
    return this.update(condition(set, id, kept, this.dialect.number(rowId)), audit);
  }

  private update(set: Conditions, audit: string, ...where: readonly Conditions[]): Sql {
    const all = allOf([condition('audit_id = ?', this.dialect.number(audit)), ...where]);
    const text = `update ${this.table} set ${set.conditions.join(', ')}, touched_at = ${this.dialect.now}${whereOf(all)}`;
    return this.dialect.statement(undefined, text).bindAll([...set.values, ...all.values]);
  }

  private known(filter: string | undefined): Conditions {
    return filter === undefined ? ALWAYS : this.dialect.sameText('filter', filter);
  }

  /** What messages were before these edits. */
  forget(edits: readonly string[]): Sql {
    const where = allOf([this.dialect.numbered('audit_id', edits), condition('kept is not null')]);
    const text = `update ${this.table} set kept = null, kept_payload = null${whereOf(where)}`;
    return this.dialect.statement(undefined, text).bindAll(where.values);
  }

  async list({ before, limit, edits }: AuditRequest): Promise<AuditRow[]> {
    const { number, readBack, named, statement } = this.dialect;
    const times = ['begun_at', 'touched_at', 'ended_at'].map((name) => readBack({ name, part: 'time' }));
    const kept = edits && ['message_id', 'kept', 'octet_length(kept_payload)', 'substring(kept_payload from 1 for ?)'];
    const columns = [
      'audit_id',
      'action',
      'actor',
      'filter',
      ...times,
      'done',
      'skipped',
      'outcome',
      'error',
      ...(kept ?? []),
    ];
    const where = allOf([
      before === null ? ALWAYS : condition('audit_id < ?', number(before)),
      edits === undefined
        ? ALWAYS
        : edits.id === undefined
          ? condition('message_id is not null')
          : named('message_id', [edits.id]),
    ]);
    const text = `select ${columns.join(', ')} from ${this.table}${whereOf(where)} order by audit_id desc limit ?`;
    const values = [...(edits === undefined ? [] : [edits.previewBytes]), ...where.values, limit];
    return (await this.run(statement(undefined, text).bindAll(values))).rows.map((row) => this.read(row));
  }

  /** @returns how many rows were deleted */
  async clean(age: number, limit: number): Promise<number> {
    return (await this.run(this.cleaned(age, limit))).affected;
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.database.run(sql);
  }

  private read(row: readonly unknown[]): AuditRow {
    const [id, action, actor, filter, begunAt, touchedAt, endedAt, done, skipped, outcome, error, ...edit] = row;
    return {
      id: String(id),
      action: action as AuditRow['action'],
      actor: actor as string,
      filter: filter as string,
      begunAt: this.dialect.readDate(begunAt),
      touchedAt: this.dialect.readDate(touchedAt),
      endedAt: this.dialect.readDate(endedAt),
      done: Number(done),
      skipped: Number(skipped),
      outcome: outcome as AuditRow['outcome'],
      error: error as string | null,
      ...(edit.length === 0 ? {} : { edit: this.readEdit(edit) }),
    };
  }

  private readEdit([id, kept, bytes, preview]: readonly unknown[]): KeptVersion {
    return {
      id: String(id),
      kept: readText(kept),
      payloadBytes: bytes === null ? null : Number(bytes),
      preview: this.dialect.readBytes(preview),
    };
  }
}
