import { IdSearch, lookDeadline, NOWHERE, type IdTable, type IdTables } from '../find-by-id.js';
import { latestOf, LOOK_TIMEOUT, type RowContent, type RowsById, type StoredRow } from '../inspect-store.js';
import type { StoreSettings } from '../names.js';
import { seekTime, WIDE, writtenBetween, type NumberedRow, type Reach } from '../seek-time.js';
import { readText, type Dialect } from './dialect.js';
import { readRow } from './rows.js';
import type { Rows, Select, TimedSelects } from './timed-selects.js';

export type Place = readonly [transport: number, bucket: number];

/** Rows are those of {@link readRow}, but where something else is said. */
export interface LookupSql {
  /** Ids of all transports. */
  readonly transports: Select;
  /** Whether no index has all ready rows by their number: then they are looked for in each bucket. */
  readonly isByPlace: boolean;
  /** Messages of these ids, wherever they stand in the table. */
  all(table: 'ready' | 'parked' | 'archive', ids: readonly string[]): Select;
  readyIn(transports: readonly number[], bucket: number, ids: readonly string[]): Select;
  /** Between two numbers. */
  readyNear(places: readonly Place[], ids: readonly string[], from: string, to: string): Select;
  /** Number and time, in milliseconds, of the first ready row with this number or a higher one. */
  firstReady(places: readonly Place[], from: string): Select;
  lastReady(places: readonly Place[]): Select;
  /** Published between two times; `null`: there is no such bound. */
  archivedBetween(from: Date | null, to: Date | null, ids: readonly string[]): Select;
  /** Headers, options, errors, size and beginning of the payload, its hash, and whether the row has the size of today. What is larger is left. */
  content(row: StoredRow, previewBytes: number): Select;
}

/** Messages by id. Only the parked table has an index of them: elsewhere the time in a UUIDv7 leads to the place. */
export class Lookup {
  private readonly search: IdSearch;
  /** Of what waits. */
  private readonly waiting: IdSearch;

  constructor(
    private readonly reads: TimedSelects,
    private readonly dialect: Dialect,
    private readonly sql: LookupSql,
    private readonly settings: StoreSettings,
  ) {
    const all =
      (table: 'ready' | 'parked' | 'archive'): IdTable['all'] =>
      (ids, deadline) =>
        this.rows(deadline, sql.all(table, ids));
    const tables = {
      ready: { all: all('ready'), near: (...look) => this.near(...look) },
      parked: { all: all('parked') },
      archived: {
        all: all('archive'),
        near: (...look) => this.archivedNear(...look),
        rest: (ids, deadline) => this.archivedNear(ids, { ...WIDE, published: Infinity }, deadline),
      },
      transports: async () => (await this.transportIds()).length,
    } satisfies IdTables;
    this.search = new IdSearch(tables);
    this.waiting = new IdSearch({ ...tables, archived: NOWHERE }, LOOK_TIMEOUT);
  }

  /** @param waiting only what waits; what is ready in one bucket alone, if that is known */
  async byIds(ids: readonly string[], waiting?: { readonly bucket?: number }): Promise<RowsById> {
    if (waiting?.bucket === undefined) return (waiting === undefined ? this.search : this.waiting).find(ids);
    const ready = await this.readyIn(waiting.bucket, ids, lookDeadline());
    const parked = await this.rows(lookDeadline(), this.sql.all('parked', ids));
    const rows = latestOf([...(ready ?? []), ...(parked ?? [])]);
    return { rows, isComplete: ready !== undefined && parked !== undefined };
  }

  /** Of these ids what is ready in a bucket, in all transports. @returns `undefined` when the time is over */
  async readyIn(bucket: number, ids: readonly string[], deadline: number): Promise<StoredRow[] | undefined> {
    return this.rows(deadline, this.sql.readyIn(await this.transportIds(), bucket, ids));
  }

  /** Where rows of these times stand. */
  async near(ids: readonly string[], reach: Reach, deadline: number): Promise<StoredRow[]> {
    const times = writtenBetween(ids, reach);
    const range = times === undefined ? undefined : await this.numbersBetween(times, deadline);
    if (range === undefined) return [];
    const look = this.sql.readyNear(await this.placesOfReady(), ids, String(range.from), String(range.to));
    return (await this.rows(deadline, look)) ?? [];
  }

  /** Numbers of the ready rows that were written between two times; `undefined`: there are none, or there was no time. */
  async numbersBetween(
    { from, to }: { readonly from: number; readonly to: number },
    deadline: number,
  ): Promise<{ from: bigint; to: bigint } | undefined> {
    const places = await this.placesOfReady();
    return this.reads.several(deadline, async (read) => {
      const at = async (seq: bigint): Promise<NumberedRow | undefined> =>
        numbered(await read(this.sql.firstReady(places, String(seq))));
      const last = numbered(await read(this.sql.lastReady(places)));
      const first = await at(0n);
      if (first === undefined || last === undefined) return undefined;
      return {
        from: await seekTime(from, { first, last, side: 'before' }, at),
        to: await seekTime(to, { first, last, side: 'behind' }, at),
      };
    });
  }

  /** All buckets of one transport, or of all. */
  async places(transport?: number): Promise<Place[]> {
    const transports = transport === undefined ? await this.transportIds() : [transport];
    const buckets = this.settings.ordering === 'global' ? 1 : this.settings.buckets;
    return transports.flatMap((id) => Array.from({ length: buckets }, (_, bucket): Place => [id, bucket]));
  }

  /** Where to look for a ready row by its number. */
  placesOfReady(): Promise<Place[]> {
    return this.sql.isByPlace ? this.places() : Promise.resolve([]);
  }

  async transportIds(): Promise<number[]> {
    return (await this.reads.select(lookDeadline(), this.sql.transports)).map(([id]) => Number(id));
  }

  archivedNear(ids: readonly string[], reach: Reach, deadline: number): Promise<StoredRow[] | undefined> {
    const times = writtenBetween(ids, reach);
    const isOpen = times === undefined || reach.published === Infinity;
    const from = times === undefined ? null : new Date(times.from);
    const to = isOpen ? null : new Date(times.to + reach.published);
    return this.rows(deadline, this.sql.archivedBetween(from, to, ids));
  }

  async content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined> {
    const [first] = await this.reads.select(lookDeadline(), this.sql.content(row, previewBytes));
    if (first === undefined) return undefined;
    const [headers, options, errors, size, preview, hash, fits] = first;
    return {
      headers: readText(headers),
      options: readText(options),
      errors: readText(errors),
      payloadBytes: size === null ? null : Number(size),
      preview: this.dialect.readBytes(preview),
      payloadHash: readText(hash),
      fits: this.dialect.isTrue(fits),
    };
  }

  private async rows(deadline: number, select: Select): Promise<StoredRow[] | undefined> {
    return (await this.reads.within(deadline, select))?.map((row) => readRow(this.dialect, row));
  }
}

function numbered([row]: Rows): NumberedRow | undefined {
  return row === undefined ? undefined : { seq: BigInt(row[0] as string), createdAt: Number(row[1]) };
}
