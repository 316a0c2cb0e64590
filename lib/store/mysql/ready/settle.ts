import { compareSeq, type Place } from '../../../outbox-message.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { Lease } from '../../lease-store.js';
import type { ParkEntry, ReadyStore, SettledMessage, WriteReport } from '../../ready-store.js';
import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import { updateOf } from '../capabilities.js';
import { DUE_AT, MOVED, movedFrom, readKey, failures, type Row } from '../columns.js';
import { DEAD, stateNumber } from '../../parked-state.js';
import { ID, jsonRows, jsonTable, lookUp, MEDIUMTEXT, placeRows, PLACES, TEXT, type JsonCell } from '../json-rows.js';
import type { MysqlFence } from '../ops/leases.js';
import { inTransaction, retried } from '../../retry.js';
import type { KeyWake } from '../../sql/wake.js';

const MAX_ERROR = 4_000;

/**
 * What happened to rows of the hot table. Every move is SELECT … FOR UPDATE → INSERT those → DELETE those in one
 * transaction: INSERT … SELECT reads without waiting, and an owner and a zombie each made a copy that way.
 */
export class MysqlSettle {
  private readonly sql: ReturnType<typeof settleStatements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    readonly fence: MysqlFence,
    readonly wake: KeyWake,
    errorHistory: number,
  ) {
    this.sql = settleStatements(names, errorHistory);
  }

  async settle(...[transport, messages, onPublished]: Parameters<ReadyStore['settle']>): Promise<WriteReport> {
    const sorted = [...messages].sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
    const hot = sorted.filter(({ parkedId }) => parkedId === null);
    const parked = sorted.filter(({ parkedId }) => parkedId !== null);
    let affected = hot.length === 0 ? 0 : await this.settleHot(transport, hot, onPublished);
    if (affected < hot.length || parked.length > 0) {
      affected += await this.settleParked(transport, affected < hot.length ? sorted : parked, onPublished);
    }
    return { fence: undefined, affected };
  }

  private async settleHot(transport: number, hot: readonly SettledMessage[], onPublished: string): Promise<number> {
    const connection = this.database.connection('settle');
    if (onPublished === 'delete') {
      return (await retried(() => connection.run(this.sql.remove.bind(placeRows(hot), transport)))).affected;
    }
    return inTransaction(connection, async (tx) => {
      const locked = await this.lockReady(tx, transport, hot);
      return locked.length === 0 ? 0 : this.removeIn(tx, transport, locked, onPublished);
    });
  }

  /** Rows of the hot table that the transaction has locked. */
  async removeIn(
    tx: SqlExecutor,
    transport: number,
    places: readonly (Place & { id: string })[],
    onPublished: string,
  ): Promise<number> {
    if (onPublished === 'archive') {
      // What is named twice would be archived twice; it is removed once anyway.
      const once = new Map(places.map((place) => [`${place.seq} ${place.id}`, place]));
      await tx.run(this.sql.archive.bind(placeRows([...once.values()]), transport));
    }
    return (await tx.run(this.sql.remove.bind(placeRows(places), transport))).affected;
  }

  /**
   * Rows that were published from the parked table, and rows that a new owner parked while an old one published them.
   * A row that nobody was sending wakes its key: its owner does not know that the first row is gone.
   */
  private settleParked(transport: number, messages: readonly SettledMessage[], onPublished: string): Promise<number> {
    const connection = this.database.connection('settle');
    return inTransaction(connection, (tx) => this.settleParkedIn(tx, transport, messages, onPublished));
  }

  async settleParkedIn(
    tx: SqlExecutor,
    transport: number,
    messages: readonly SettledMessage[],
    onPublished: string,
  ): Promise<number> {
    const rows = await this.lockParked(tx, transport, messages);
    if (rows.length === 0) return 0;
    const ids = jsonRows(rows.map(([parkedId]) => [BigInt(parkedId as string)]));
    if (onPublished === 'archive') await tx.run(this.sql.archiveParked.bind(ids));
    await tx.run(this.sql.removeParked.bind(ids));
    const surprising = rows.filter(([, , key, blocking, epoch]) => this.wake.holds(blocking, key) && epoch === null);
    await this.wake.wake(
      tx,
      surprising.map(([, bucket, key]) => ({ transport, bucket: Number(bucket), key: readKey(key) ?? '' })),
    );
    return rows.length;
  }

  /**
   * By the primary key, and what was hot when it was published is looked up before without locks: whoever asked the index of
   * ids with a lock would wait for each copy of its message, which somebody else may be publishing under a lock.
   */
  private async lockParked(
    tx: SqlExecutor,
    transport: number,
    messages: readonly SettledMessage[],
  ): Promise<readonly Row[]> {
    const known = messages.flatMap(({ id, parkedId }) => (parkedId === null ? [] : [{ id, parkedId }]));
    const moved = messages.filter(({ parkedId }) => parkedId === null).map(({ id, seq }) => [id, BigInt(seq)]);
    if (moved.length > 0) {
      const { rows } = await tx.run(this.sql.findMoved.bind(jsonRows(moved), transport));
      known.push(...rows.map(([parkedId, id]) => ({ id: String(id), parkedId: String(parkedId) })));
    }
    const once = new Map(known.map((row) => [row.parkedId, row])); // two entries may name one row
    if (once.size === 0) return [];
    const sorted = [...once.values()].sort((a, b) => compareSeq(a.parkedId, b.parkedId)); // everybody locks in this order
    const list = jsonRows(sorted.map(({ id, parkedId }) => [id, BigInt(parkedId)]));
    return (await tx.run(this.sql.lockParked.bind(list, transport))).rows;
  }

  async park(owner: string, leases: readonly Lease[], entries: readonly ParkEntry[]): Promise<WriteReport> {
    const transport = leases[0]?.transport;
    if (transport === undefined || entries.length === 0) return { fence: undefined, affected: 0 };
    const connection = this.database.connection('settle');
    const affected = await inTransaction(connection, async (tx) => {
      const held = await this.fence.hold(tx, owner, leases, false);
      return this.parkIn(
        tx,
        transport,
        entries.filter(({ bucket }) => held.has(bucket)),
      );
    });
    return { fence: undefined, affected };
  }

  async parkIn(tx: SqlExecutor, transport: number, entries: readonly ParkEntry[]): Promise<number> {
    const locked = await this.lockReady(tx, transport, entries);
    if (locked.length === 0) return 0;
    const there = new Set(locked.map(({ seq }) => seq));
    await tx.run(this.sql.park.bind(jsonRows(entries.filter(({ seq }) => there.has(seq)).map(parkRow)), transport));
    return (await tx.run(this.sql.remove.bind(placeRows(locked), transport))).affected;
  }

  async lockReady(
    tx: SqlExecutor,
    transport: number,
    places: readonly (Place & { id: string })[],
  ): Promise<(Place & { id: string })[]> {
    if (places.length === 0) return [];
    const sorted = [...places].sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
    const { rows } = await tx.run(this.sql.lockReady.bind(placeRows(sorted), transport));
    return rows.map(([bucket, seq, id]) => ({ bucket: Number(bucket), seq: seq as string, id: id as string }));
  }
}

function settleStatements({ ready, parked, archive }: TableNames, errorHistory: number) {
  const there = (list: string): string =>
    `${lookUp(list, `${ready} h`)} on h.transport = ? and h.bucket = k.b and h.seq = k.s where h.id = k.i`;
  const byId = jsonTable({ p: 'bigint unsigned' });
  const moved = `${lookUp(jsonTable({ i: ID, s: 'bigint unsigned' }), `${parked} p`, 'by_id')} on p.id = k.i`;
  const known = `${lookUp(jsonTable({ i: ID, p: 'bigint unsigned' }), `${parked} p`)} on p.parked_id = k.p`;
  return {
    remove: statement('settle', `delete h from ${there(PLACES)}`),
    lockReady: statement('lock ready', `select h.bucket, h.seq, h.id from ${there(PLACES)} ${updateOf('h')}`),
    archive: statement('archive', `insert into ${archive} (${MOVED}) select ${movedFrom('h')} from ${there(PLACES)}`),
    // By its seq as well: an id that came twice settles only itself.
    findMoved: statement('find parked', `select p.parked_id, p.id from ${moved} where p.transport = ? and p.seq = k.s`),
    lockParked: statement(
      'lock parked',
      `select p.parked_id, p.bucket, p.\`key\`, p.blocking, p.sending_epoch
      from ${known} where p.id = k.i and p.transport = ? ${updateOf('p')}`,
    ),
    archiveParked: statement(
      'archive parked',
      `insert into ${archive} (${MOVED}, attempts)
      select ${movedFrom('p')}, p.attempts from ${lookUp(byId, `${parked} p`)} on p.parked_id = k.p`,
    ),
    removeParked: statement('settle parked', `delete p from ${lookUp(byId, `${parked} p`)} on p.parked_id = k.p`),
    park: parkStatement(parked, there, errorHistory),
  };
}

function parkStatement(parked: string, there: (list: string) => string, errorHistory: number): Statement {
  const entries = jsonTable({
    b: 'smallint',
    s: 'bigint unsigned',
    i: ID,
    state: 'tinyint',
    blocking: 'tinyint',
    attempts: 'int',
    delay: 'bigint',
    error: TEXT,
    progress: MEDIUMTEXT,
  });
  return statement(
    'park',
    `insert into ${parked}
      (${MOVED}, state, blocking, attempts, due_at, attempted_at, last_error, errors, progress, died_at)
      select ${movedFrom('h')}, k.state, k.blocking, k.attempts, ${DUE_AT},
        if(k.error is null, null, utc_timestamp(6)), k.error, ${failures(errorHistory, undefined)}, k.progress, if(k.state = ${DEAD}, utc_timestamp(6), null) from ${there(entries)}`,
  );
}

function parkRow(entry: ParkEntry): JsonCell[] {
  const { bucket, seq, id, state, blocks, attempts, delay, error, progress } = entry;
  return [
    bucket,
    BigInt(seq),
    id,
    stateNumber(state),
    blocks,
    attempts,
    microseconds(delay),
    storableError(error),
    storable(progress),
  ];
}

export const microseconds = (delay: number | null): number | null => (delay === null ? null : Math.round(delay * 1000));
/** Error texts come from brokers and handlers; half a surrogate pair must not keep its message from being parked. */
export function storable(text: string | null | undefined): string | null {
  return text === null || text === undefined ? null : Buffer.from(text, 'utf8').toString('utf8');
}
export const storableError = (text: string | null): string | null => storable(text?.slice(0, MAX_ERROR) ?? null);
