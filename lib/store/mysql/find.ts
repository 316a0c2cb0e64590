import type { SqlConnection } from '../executors/executor.js';
import type { MessageFilter } from '../admin-store.js';
import type { StoreSettings, TableNames } from '../schema/names.js';
import { statement, type Sql, type Statement } from '../sql.js';
import { marks, sized } from './statements.js';

/** Rows of the hot table that one statement looks through. */
const PAGE = 50_000;

/** Finds the rows that an operator means. */
export class MysqlFind {
  /** @internal */ readonly pageEnd: Statement;
  /** @internal */ readonly inPage: (ids: number) => Statement;
  /** @internal */ readonly among: (ids: number) => Statement;

  constructor(
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {
    const { ready, parked } = names;
    this.pageEnd = statement(
      'page end',
      `select max(seq) from (
      select seq from ${ready} force index (by_seq) where seq > ? order by seq limit ?) page`,
    );
    this.inPage = sized(
      (ids) => `select id, transport from ${ready} force index (by_seq)
      where seq > ? and seq <= ? and id in (${marks(ids)})`,
    );
    this.among = sized((ids) => `select id, transport from ${parked} where id in (${marks(ids)})`);
  }

  /** Key and id of parked rows; of named ids whatever their state is, because they are then not "nowhere". */
  parked(filter: MessageFilter, states: readonly number[], limit: number): Sql {
    const { conditions, values } = this.conditions(filter);
    if (filter.ids === undefined) conditions.push(`state in (${states.join(', ')})`);
    const text = `select parked_id, id from ${this.names.parked} where ${conditions.join(' and ')} order by parked_id limit ?`;
    return statement(undefined, text).bind(...values, limit);
  }

  /** @internal */ conditions({ ids, transport, key, topic, type }: MessageFilter): {
    conditions: string[];
    values: unknown[];
  } {
    const conditions: string[] = [];
    const values: unknown[] = [];
    const add = (condition: string, ...more: unknown[]): void => {
      conditions.push(condition);
      values.push(...more);
    };
    add(
      transport === undefined
        ? `transport in (select id from ${this.names.transports})`
        : `transport = ${Number(transport)}`,
    );
    if (ids !== undefined) add(ids.length === 0 ? '1 = 0' : `id in (${marks(ids.length)})`, ...ids);
    if (key !== undefined) add(`${this.ofKey('blocking in (0, 1)')}`, Buffer.from(key, 'utf8'));
    // As bytes: text would ignore trailing spaces.
    if (topic !== undefined) add('cast(topic as binary) = ?', Buffer.from(topic, 'utf8'));
    if (type !== undefined) add('cast(type as binary) = ?', Buffer.from(type, 'utf8'));
    return { conditions, values };
  }

  /** Every column of the key index up to the message key. */
  ofKey(blocking: string): string {
    const buckets = Array.from({ length: this.settings.buckets }, (_, bucket) => bucket);
    return `bucket in (${buckets.join(', ')}) and ${blocking} and \`key\` = ?`;
  }

  /** Of these ids, those in the parked table. */
  async parkedAmong(
    connection: SqlConnection,
    ids: readonly string[],
    transport: number | undefined,
  ): Promise<string[]> {
    return idsOf((await connection.run(this.among(ids.length).bind(...ids))).rows, transport);
  }

  /** Of these ids, those in the hot table. It has no key on the id: this reads all of it, page by page. */
  async readyAmong(
    connection: SqlConnection,
    ids: readonly string[],
    transport: number | undefined,
  ): Promise<string[]> {
    const found: string[] = [];
    for (let after = '0'; ;) {
      const end = (await connection.run(this.pageEnd.bind(BigInt(after), PAGE))).rows[0]?.[0];
      if (end === null || end === undefined) return found;
      const page = this.inPage(ids.length).bind(BigInt(after), BigInt(end as string), ...ids);
      found.push(...idsOf((await connection.run(page)).rows, transport));
      after = end as string;
    }
  }
}

function idsOf(rows: readonly (readonly unknown[])[], transport: number | undefined): string[] {
  const ours = rows.filter(([, of]) => transport === undefined || Number(of) === transport);
  return [...new Set(ours.map(([id]) => String(id)))];
}
