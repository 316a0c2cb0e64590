import { crc32 } from 'node:zlib';
import { keyBytes } from '../../../message/key-bytes.js';
import type { NewMessage } from '../../../outbox-message.js';
import { OutboxConfigurationError, OutboxTransactionConflictError } from '../../../outbox.errors.js';
import type { SqlExecutor } from '../../executor.js';
import { KEY_LOCKS } from '../schema/strict.js';
import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import { updateOf } from '../capabilities.js';
import { lookUp } from '../json-rows.js';
import { DEADLOCK, errnoOf } from '../../retry.js';
import { LOCK_WAIT_TIMEOUT } from '../errors.js';

/** Numbers only, for it runs in the caller's session: the driver escapes quotes, and its sql_mode may know no escapes. */
const SLOTS = `json_table(?, '$[*]' columns (s int path '$')) k`;

/**
 * `ordering: 'strict'`. A lock on each key, from its enqueue to the end of the transaction: whoever enqueues for the key
 * next takes a later number, and commits later. InnoDB makes a commit visible, and has it in the binary log, before it
 * frees the locks. Rows are only locked, never written: nothing for undo, redo or the binary log.
 */
export class MysqlKeyLocks {
  /** @internal */ readonly lock: Statement;

  constructor(readonly names: TableNames) {
    // One look-up by the primary key after the other, in the order of the list; no gap locks in any isolation.
    this.lock = statement(
      undefined,
      `select l.slot from ${lookUp(SLOTS, `${names.keyLocks} l`)} on l.slot = k.s ${updateOf('l')}`,
    );
  }

  /** Sorted: calls of different transactions cannot deadlock; several calls in one transaction can. */
  async take(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<void> {
    const slots = new Set<number>();
    for (const { key } of messages) if (key !== null) slots.add(crc32(keyBytes(key)) % KEY_LOCKS);
    if (slots.size === 0) return;
    const sorted = [...slots].sort((a, b) => a - b);
    const { rows } = await tx.run(this.lock.bind(JSON.stringify(sorted))).catch((error: unknown) => {
      throw this.conflict(error) ?? error;
    });
    if (rows.length === slots.size) return;
    throw new OutboxConfigurationError('SCHEMA_MISMATCH', `${this.names.keyLocks} has lost rows.`, {
      hint: 'Run the up of outboxSql() with the same options again; it puts them back.',
    });
  }

  /** @internal */ conflict(error: unknown): OutboxTransactionConflictError | undefined {
    const errno = errnoOf(error);
    if (errno === DEADLOCK) {
      return new OutboxTransactionConflictError(
        'Two transactions wait for keys of each other; the database ended this one.',
        {
          hint: 'Run the whole transaction again. One enqueue with all messages, instead of several, cannot run into this.',
          cause: error,
        },
      );
    }
    if (errno !== LOCK_WAIT_TIMEOUT) return undefined;
    return new OutboxTransactionConflictError(
      'Another transaction holds one of the keys for longer than innodb_lock_wait_timeout.',
      {
        hint: 'Roll back and run the whole transaction again.',
        cause: error,
      },
    );
  }
}
