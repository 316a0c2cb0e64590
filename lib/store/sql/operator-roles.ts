import type { OutboxStore, MessageWriter } from '../outbox-store.js';
import { AuditTable, type AuditSql } from './audit.js';
import { BulkTable, type BulkSql, type RowChanges } from './bulk.js';
import { EditTable, type EditSql, type ParkedRows } from './edit.js';
import type { TimedSelects } from './timed-selects.js';
import type { OperatorDatabase } from './operator-database.js';
import type { Lookup } from './lookup.js';
import { PauseTable, type PauseSql } from './pauses.js';
import { PurgeTable, type PurgeSql } from './purge.js';
import { ReplayTable, type ReplaySql } from './replay.js';

/** What operators ask and do, in the words of one database. */
export interface OperatorSql {
  readonly audit: AuditSql;
  readonly bulk: BulkSql;
  readonly edit: EditSql;
  readonly pauses: PauseSql;
  readonly purge: PurgeSql;
  readonly replay: ReplaySql;
}
export interface OperatorParts {
  readonly reads: TimedSelects;
  readonly rows: RowChanges & ParkedRows;
  readonly writer: MessageWriter;
  readonly lookup: Pick<Lookup, 'locate'>;
}

/** The roles of operators, and the table that says what they did. */
export function operatorRoles(database: OperatorDatabase, sql: OperatorSql, parts: OperatorParts) {
  const { reads, rows, writer, lookup } = parts;
  const audits = new AuditTable(database, sql.audit);
  return {
    audits,
    bulk: new BulkTable(database, reads, sql.bulk, rows, audits, lookup),
    edits: new EditTable(database, sql.edit, rows, audits),
    purge: new PurgeTable(database, reads, sql.purge, audits),
    replay: new ReplayTable(database, reads, sql.replay, writer),
    pauses: new PauseTable(database, sql.pauses, audits),
  } satisfies Partial<OutboxStore> & { audits: AuditTable };
}
