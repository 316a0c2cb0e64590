import type { Cleaning, CleanReport, CleanStore } from '../admin-store.js';
import type { Sql } from '../sql.js';
import type { AuditTable } from './audit.js';
import type { OperatorDatabase } from './operator-database.js';
import type { Removal } from './row-changes.js';
import type { KeyWake } from './wake.js';

/** Rows of an age, the oldest first, past those that somebody else has locked. Ages are milliseconds. */
export interface CleanSql extends Pick<Removal, 'remove'> {
  /** Locks archived rows. They are deleted by what it returns of them. */
  archived(age: number, limit: number): Sql;
  /** Transports that have such dead messages; `undefined` where {@link CleanSql.dead} finds those of all by one index. */
  readonly withDead: ((age: number, announcedOnly: boolean) => Sql) | undefined;
  /** Locks dead messages: number of the row, transport, bucket, key, and whether it blocks that. */
  dead(age: number, limit: number, announcedOnly: boolean, transport: unknown): Sql;
  removeParked(numbers: readonly unknown[]): Sql;
}
export interface CleanParts {
  readonly wake: Pick<KeyWake, 'wakeKeys'>;
  readonly dedup: { clean(age: number, limit: number): Promise<CleanReport> };
  readonly audits: Pick<AuditTable, 'clean'>;
}

/** Deletes what is final and old, in bounded batches. */
export class CleanTable implements CleanStore {
  constructor(
    private readonly database: OperatorDatabase,
    private readonly sql: CleanSql,
    private readonly parts: CleanParts,
  ) {}

  async clean(what: Cleaning, age: number, limit: number): Promise<CleanReport> {
    const { dedup, audits } = this.parts;
    if (what === 'dedup') return dedup.clean(age, limit);
    if (what === 'archive') return all(await this.archive(age, limit));
    if (what === 'audit') return all(await audits.clean(age, limit));
    return all(await this.dead(age, limit, what === 'announced'));
  }

  private archive(age: number, limit: number): Promise<number> {
    return this.database.transaction(async (tx) => {
      const { rows } = await tx.run(this.sql.archived(age, limit));
      return rows.length === 0 ? 0 : (await tx.run(this.sql.remove(rows.map((row) => row.map(String))))).affected;
    });
  }

  private async dead(age: number, limit: number, announcedOnly: boolean): Promise<number> {
    const { withDead } = this.sql;
    const transports = withDead && (await this.database.run(withDead(age, announcedOnly))).rows.map(([id]) => id);
    let removed = 0;
    for (const transport of transports ?? [null]) {
      if (removed < limit) removed += await this.deadOf(transport, age, limit - removed, announcedOnly);
    }
    return removed;
  }

  private async deadOf(transport: unknown, age: number, limit: number, announcedOnly: boolean): Promise<number> {
    const removed = await this.database.transaction(async (tx) => {
      const { rows } = await tx.run(this.sql.dead(age, limit, announcedOnly, transport));
      if (rows.length > 0) await tx.run(this.sql.removeParked(rows.map(([number]) => number)));
      await this.parts.wake.wakeKeys(tx, rows);
      return rows;
    });
    await this.parts.wake.wakeKeys(this.database, removed).catch(() => undefined); // as behind an operator's step
    return removed.length;
  }
}

const all = (removed: number): CleanReport => ({ removed, looked: removed });
