import type { SqlDatabase } from '../../executor.js';
import type { ReadyStore } from '../../ready-store.js';
import type { TableNames } from '../../names.js';
import { statement, type Sql } from '../../sql.js';
import { jsonRows, jsonTable, lookUp, ID } from '../json-rows.js';

type Unread = Parameters<ReadyStore['readPayloads']>[1][number];

/** Large payloads, when their turn has come. */
export class MysqlPayloads {
  private readonly sql: ReturnType<typeof payloadStatements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
  ) {
    this.sql = payloadStatements(names);
  }

  async read(transport: number, messages: readonly Unread[]): Promise<(Buffer | undefined)[]> {
    const found = new Array<Buffer | undefined>(messages.length).fill(undefined);
    const ready = messages.flatMap(({ bucket, seq, id, parkedId }, n) =>
      parkedId === null ? [[n, bucket, BigInt(seq), id]] : [],
    );
    const parked = messages.flatMap(({ parkedId }, n) => (parkedId === null ? [] : [[n, BigInt(parkedId)]]));
    if (ready.length > 0) await this.into(found, this.sql.ready.bind(jsonRows(ready), transport));
    if (parked.length > 0) await this.into(found, this.sql.parked.bind(jsonRows(parked)));
    return found;
  }

  private async into(found: (Buffer | undefined)[], sql: Sql): Promise<void> {
    const { rows } = await this.database.connection('read').run(sql);
    for (const [n, payload] of rows) found[Number(n)] = (payload as Buffer | null) ?? undefined;
  }
}

function payloadStatements({ ready, parked }: TableNames) {
  const places = jsonTable({ n: 'int', b: 'smallint', s: 'bigint unsigned', i: ID });
  return {
    ready: statement(
      'payloads',
      `select k.n, h.payload from ${lookUp(places, `${ready} h`)}
      on h.transport = ? and h.bucket = k.b and h.seq = k.s and h.id = k.i`,
    ),
    parked: statement(
      'parked payloads',
      `select k.n, p.payload from ${lookUp(jsonTable({ n: 'int', p: 'bigint unsigned' }), `${parked} p`)} on p.parked_id = k.p`,
    ),
  };
}
