import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlDatabase } from '../../executor.js';
import { IdSearch, lookDeadline, NOWHERE, type IdTable, type IdTables } from '../../find-by-id.js';
import { latestOf, LOOK_TIMEOUT, type RowContent, type RowsById, type StoredRow } from '../../inspect-store.js';
import { ROW_LIMITS } from '../../limits.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import { seekTime, WIDE, writtenBetween, type NumberedRow, type Reach } from '../../seek-time.js';
import { readTime, type Row } from '../columns.js';
import { bucketSql } from '../schema/tables.js';
import { marks } from '../statements.js';
import { readRow, ROW_COLUMNS } from './rows.js';
import type { TimedSelect } from './select.js';

/** Messages by id. Only the parked table has an index of them: elsewhere the time in a UUIDv7 leads to the place. */
export class MysqlLookup {
  /** @internal */ readonly ids: IdSearch;
  /** Of what waits. @internal */ readonly waiting: IdSearch;
  /** @internal */ readonly transportsSql: Statement;
  /** @internal */ readonly bucketSql: Statement;

  constructor(
    readonly database: SqlDatabase,
    readonly select: TimedSelect,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {
    this.transportsSql = statement('all transports', `select id from ${names.transports} order by id`);
    const ofKey = bucketSql('?', { ...settings, ordering: 'key' });
    this.bucketSql = statement('bucket of a key', `select ${ofKey} as bucket`);
    const all =
      (table: 'ready' | 'parked' | 'archive', index = ''): IdTable['all'] =>
      async (ids, deadline) => {
        const rest = `${ROW_COLUMNS[table]} from ${names[table]}${index} where id in (${marks(ids.length)})`;
        return (await select.within(deadline, rest, ids))?.map(readRow);
      };
    const tables = {
      ready: { all: all('ready'), near: (...look) => this.near(...look) },
      parked: { all: all('parked', ' force index (by_id)') },
      archived: {
        all: all('archive'),
        near: (...look) => this.archivedNear(...look),
        rest: (ids, deadline) => this.archivedNear(ids, { ...WIDE, published: Infinity }, deadline),
      },
      transports: async () => (await this.transportIds()).length,
    } satisfies IdTables;
    this.ids = new IdSearch(tables);
    this.waiting = new IdSearch({ ...tables, archived: NOWHERE }, LOOK_TIMEOUT);
  }

  async transportIds(): Promise<number[]> {
    return (await this.database.connection('admin').run(this.transportsSql.bind())).rows.map(([id]) => Number(id));
  }

  byIds(ids: readonly string[]): Promise<RowsById> {
    return this.ids.find(ids);
  }

  /** Of these ids what waits; what is ready in one bucket alone, if that is known. */
  async locate(ids: readonly string[], bucket?: number): Promise<RowsById> {
    if (bucket === undefined) return this.waiting.find(ids);
    const ready = await this.readyIn(bucket, ids, lookDeadline());
    const parked = await this.ids.tables.parked.all(ids, lookDeadline());
    const rows = latestOf([...(ready ?? []), ...(parked ?? [])]);
    return { rows, isComplete: ready !== undefined && parked !== undefined };
  }

  /** Of these ids what is ready in a bucket, in all transports. @returns `undefined` when the time is over */
  async readyIn(bucket: number, ids: readonly string[], deadline: number): Promise<StoredRow[] | undefined> {
    const transports = await this.transportIds();
    const rest = `${ROW_COLUMNS.ready} from ${this.names.ready} force index (primary)
      where transport in (${transports.join(', ')}) and bucket = ? and id in (${marks(ids.length)})`;
    return (await this.select.within(deadline, rest, [bucket, ...ids]))?.map(readRow);
  }

  /** @internal Where rows of these times stand. */
  async near(ids: readonly string[], reach: Reach, deadline: number): Promise<StoredRow[]> {
    const times = writtenBetween(ids, reach);
    const range = times === undefined ? undefined : await this.numbersBetween(times, deadline);
    if (range === undefined) return [];
    const rest = `${ROW_COLUMNS.ready} from ${this.names.ready} force index (by_seq) where seq >= ? and seq <= ? and id in (${marks(ids.length)})`;
    return ((await this.select.within(deadline, rest, [range.from, range.to, ...ids])) ?? []).map(readRow);
  }

  /** Numbers of the ready rows that were written between two times; `undefined`: there are none, or there was no time. */
  async numbersBetween(
    { from, to }: { readonly from: number; readonly to: number },
    deadline: number,
  ): Promise<{ from: bigint; to: bigint } | undefined> {
    const ready = `seq, created_at from ${this.names.ready} force index (by_seq)`;
    const at = async (seq: bigint): Promise<NumberedRow | undefined> =>
      numbered(await this.select.within(deadline, `${ready} where seq >= ? order by seq limit 1`, [seq]));
    const last = numbered(await this.select.within(deadline, `${ready} order by seq desc limit 1`, []));
    const first = await at(0n);
    if (first === undefined || last === undefined) return undefined;
    return {
      from: await seekTime(from, { first, last, side: 'before' }, at),
      to: await seekTime(to, { first, last, side: 'behind' }, at),
    };
  }

  /** Where all messages of a key are; in a global order they are all in one bucket. */
  async bucketOf(key: string): Promise<number> {
    if (this.settings.ordering === 'global') return 0;
    const { rows } = await this.database.connection('admin').run(this.bucketSql.bind(keyBytes(key)));
    return Number(rows[0]?.[0]);
  }

  /** @internal */ async archivedNear(
    ids: readonly string[],
    reach: Reach,
    deadline: number,
  ): Promise<StoredRow[] | undefined> {
    const times = writtenBetween(ids, reach);
    const isOpen = times === undefined || reach.published === Infinity;
    const conditions = [
      `id in (${marks(ids.length)})`,
      ...(times === undefined ? [] : ['published_at >= ?']),
      ...(isOpen ? [] : ['published_at <= ?']),
    ];
    const index = times === undefined ? '' : 'force index (by_time) ';
    const rest = `${ROW_COLUMNS.archive} from ${this.names.archive} ${index}where ${conditions.join(' and ')}`;
    const bounds =
      times === undefined ? [] : [times.from, ...(isOpen ? [] : [times.to + reach.published])].map(timeText);
    return (await this.select.within(deadline, rest, [...ids, ...bounds]))?.map(readRow);
  }

  async content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined> {
    const { from, values } = this.placeOf(row);
    const errors = row.state === 'ready' || row.state === 'published' ? 'null' : 'errors';
    const rest = `${small('headers')}, ${small('options')}, ${errors}, octet_length(payload), substring(payload, 1, ?) ${from}`;
    const [first] = await this.select.select(lookDeadline(), rest, [previewBytes, ...values]);
    if (first === undefined) return undefined;
    const [headers, options, kept, size, preview] = first;
    return {
      headers: headers as string | null,
      options: options as string | null,
      errors: kept as string | null,
      payloadBytes: size === null ? null : Number(size),
      preview: preview as Buffer | null,
    };
  }

  /** @internal */ placeOf({ state, transport, bucket, seq, id, rowId }: StoredRow): {
    from: string;
    values: unknown[];
  } {
    const { ready, parked, archive } = this.names;
    if (state === 'ready')
      return {
        from: `from ${ready} force index (primary) where transport = ? and bucket = ? and seq = ? and id = ?`,
        values: [transport, bucket, BigInt(seq), id],
      };
    const [table, column] = state === 'published' ? [archive, 'archive_id'] : [parked, 'parked_id'];
    return { from: `from ${table} where ${column} = ? and id = ?`, values: [BigInt(rowId ?? '0'), id] };
  }
}

const timeText = (ms: number): string => new Date(ms).toISOString().replace('T', ' ').replace('Z', '');
/** What is longer than anybody may write is left where it is. */
const small = (column: 'headers' | 'options'): string =>
  `if(octet_length(${column}) > ${ROW_LIMITS[column]}, null, ${column})`;

function numbered(rows: readonly Row[] | undefined): NumberedRow | undefined {
  const [row] = rows ?? [];
  return row === undefined ? undefined : { seq: BigInt(row[0] as string), createdAt: readTime(row[1]) };
}
