import { randomUUID } from 'node:crypto';
import type { SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { lookUp, placeRows, PLACES } from '../json-rows.js';
import { sized, times } from '../statements.js';

/** Rows of one statement. */
const ROWS = 500;
const BUCKET = 0;

/**
 * Numbers above all that were given out, for rows that go behind what was enqueued before. There are no sequences: rows
 * are inserted into the ready table and deleted again, and nobody else ever sees them.
 */
export class MysqlNumbers {
  private readonly sql: ReturnType<typeof numberStatements>;

  constructor(names: TableNames) {
    this.sql = numberStatements(names);
  }

  async draw(tx: SqlExecutor, transport: number, count: number): Promise<string[]> {
    const drawn: string[] = [];
    while (drawn.length < count) {
      const ids = Array.from({ length: Math.min(ROWS, count - drawn.length) }, () => randomUUID());
      await tx.run(this.sql.insert(ids.length).bind(...ids.flatMap((id) => [transport, BUCKET, id])));
      const [first, step] = ((await tx.run(this.sql.first.bind())).rows[0] as unknown[]).map((n) => BigInt(String(n)));
      const numbers = ids.map((_, i) => String((first as bigint) + BigInt(i) * (step as bigint))); // of one INSERT: in a row
      const places = numbers.map((seq, i) => ({ bucket: BUCKET, seq, id: ids[i] as string }));
      const { affected } = await tx.run(this.sql.remove.bind(placeRows(places), transport));
      if (affected !== ids.length) throw new Error('Numbers were not given out in a row.'); // none of these may stay
      drawn.push(...numbers);
    }
    return drawn;
  }
}

function numberStatements({ ready }: TableNames) {
  return {
    insert: sized(
      (n) => `insert into ${ready} (transport, bucket, id, topic) values ${times(n, `(?, ?, ?, '')`, ', ')}`,
    ),
    first: statement('first number', 'select last_insert_id(), @@session.auto_increment_increment'),
    remove: statement(
      'remove numbers',
      `delete h from ${lookUp(PLACES, `${ready} h`)} on h.transport = ? and h.bucket = k.b and h.seq = k.s where h.id = k.i`,
    ),
  };
}
