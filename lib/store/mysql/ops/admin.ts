import { keyBytes } from '../../../message/key-bytes.js';
import { compareSeq, type ParkedState } from '../../../outbox-message.js';
import type { BulkRow } from '../../bulk-store.js';
import type { StoredRow } from '../../inspect-store.js';
import type { Also, RowChanges } from '../../sql/bulk.js';
import type { Change } from '../../admin-store.js';
import type { ParkedPlace } from '../../edit/edit-store.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { shareOf, updateOf } from '../capabilities.js';
import { readKey } from '../columns.js';
import { DEAD, stateNumber, WAITING } from '../../parked-state.js';
import { jsonRows, jsonTable, lookUp, PARKED_IDS } from '../json-rows.js';
import type { KeyOfTransport } from '../../sql/take.js';
import type { MysqlWake } from '../parked/wake.js';
import type { MysqlDedupKeys } from '../ready/dedup-keys.js';
import { inTransaction } from '../../retry.js';
import type { MysqlUnowned } from './cancel-unowned.js';

const OF_KEYS = 'if(p.`key` is null, 0, 1)';

/** Whether a row that is tried again holds later ones back. */
const BLOCKS = { key: OF_KEYS, strict: OF_KEYS, none: '0', global: '1' } as const;
interface Candidate extends KeyOfTransport {
  readonly parkedId: string;
  readonly id: string;
  readonly state: number;
  readonly blocking: boolean;
  readonly epoch: string | null;
}
/** What operators do to parked rows. Never to one that is being sent. */
export class MysqlAdmin implements RowChanges {
  private readonly sql: ReturnType<typeof adminStatements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    settings: StoreSettings,
    readonly parts: {
      readonly wake: MysqlWake;
      readonly keys: MysqlDedupKeys;
      readonly unowned: MysqlUnowned;
    },
  ) {
    this.sql = adminStatements(names, settings);
  }

  /** @returns how many dead rows block no longer */
  async releaseIn(
    tx: SqlExecutor,
    { key, transport }: { key: string; transport?: number | undefined },
  ): Promise<number> {
    const bytes = keyBytes(key);
    const { rows } = await tx.run(this.sql.placesOf.bind(bytes));
    const places = rows.filter(([of]) => transport === undefined || Number(of) === transport);
    let released = 0;
    for (const [of, bucket] of places) released += (await tx.run(this.sql.unblock.bind(of, bucket, bytes))).affected;
    await this.parts.wake.wakeAtOnce(
      tx,
      places.map(([of, bucket]) => ({ transport: Number(of), bucket: Number(bucket), key })),
    );
    return released;
  }

  async change(
    action: Change,
    states: readonly ParkedState[],
    rows: readonly BulkRow[],
    also: Also,
  ): Promise<string[]> {
    const ids = rows.map(({ rowId }) => rowId).sort(compareSeq); // everybody locks in this order
    const { keys } = this.parts;
    const free = action === 'requeue' ? [] : await keys.before(rows);
    const changed = await inTransaction(this.database.connection('admin'), async (tx) => {
      const some = await this.changeIn(tx, action, states.map(stateNumber), ids);
      await keys.free(tx, free, some);
      await also(tx, some.length);
      return some;
    });
    if (action !== 'requeue') await keys.after(changed);
    return changed.map(({ id }) => id);
  }

  /** A transaction for each bucket. */
  async cancelReady(rows: readonly StoredRow[], also: (asked: number) => Also): Promise<string[]> {
    const { unowned } = this.parts;
    const places = new Map<string, StoredRow[]>();
    for (const row of rows) {
      const place = `${row.transport} ${row.bucket}`;
      places.set(place, [...(places.get(place) ?? []), row]);
    }
    const all: string[] = [];
    for (const found of places.values()) {
      const deleted = await unowned.removeSome(found, also(found.length));
      await unowned.keys.after(deleted);
      for (const { id } of deleted) all.push(id);
    }
    return all;
  }

  /**
   *The lease rows first, then the rows: while they are locked nobody takes the buckets over, so that the
   * epoch that we compare with is the only one in which a row can be sent; a `take` of the owner waits for the row.
   */
  private async changeIn(
    tx: SqlExecutor,
    action: Change,
    states: readonly number[],
    parkedIds: readonly string[],
  ): Promise<Candidate[]> {
    const { rows, isSent } = await this.lock(tx, parkedIds);
    const changed = rows.filter((row) => !isSent(row) && states.includes(row.state));
    if (changed.length > 0) {
      const list = idRows(changed.map(({ parkedId }) => parkedId));
      await tx.run(action === 'requeue' ? this.sql.requeue.bind(list) : this.sql.remove.bind(list));
      if (action !== 'requeue') await this.parts.wake.wake(tx, unique(changed.filter(({ blocking }) => blocking)));
    }
    return changed;
  }

  /** Locks a row as {@link changeIn} does. With row locks one that is being published is passed by. */
  async hold(tx: SqlExecutor, parkedId: string): Promise<'held' | 'sending' | 'gone'> {
    const { rows, isSent } = await this.lock(tx, [parkedId]);
    if (rows.some((row) => !isSent(row))) return 'held';
    return (await tx.run(this.sql.isThere.bind(BigInt(parkedId)))).rows.length > 0 ? 'sending' : 'gone';
  }

  requeueHeld(tx: SqlExecutor, { rowId, state }: ParkedPlace): Promise<unknown> {
    return this.changeIn(tx, 'requeue', [stateNumber(state)], [rowId]);
  }

  private async lock(
    tx: SqlExecutor,
    parkedIds: readonly string[],
  ): Promise<{ rows: Candidate[]; isSent: (row: Candidate) => boolean }> {
    const ids = idRows(parkedIds);
    const epochs = new Map<string, string>();
    const places = (await tx.run(this.sql.places.bind(ids))).rows.map(([transport, bucket]) => [
      Number(transport),
      Number(bucket),
    ]);
    for (const [transport, bucket, epoch, lasts] of (await tx.run(this.sql.lockLeases.bind(jsonRows(places)))).rows) {
      if (Number(lasts) === 1) epochs.set(`${String(transport)} ${String(bucket)}`, String(epoch));
    }
    const rows = (await tx.run(this.sql.lockRows.bind(ids))).rows.map(readCandidate);
    const isSent = (row: Candidate): boolean =>
      row.epoch !== null && epochs.get(`${row.transport} ${row.bucket}`) === row.epoch;
    return { rows, isSent };
  }
}

function adminStatements(names: TableNames, settings: StoreSettings) {
  const { parked, leases } = names;
  const { ordering, coordination } = settings;
  const blocks = BLOCKS[ordering];
  const byId = `${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`;
  return {
    places: statement('places', `select distinct p.transport, p.bucket from ${byId} order by p.transport, p.bucket`),
    lockLeases: statement(
      'lock leases',
      `select l.transport, l.bucket, l.epoch, l.expires_at > utc_timestamp(6)
      from ${lookUp(jsonTable({ t: 'smallint', b: 'smallint' }), `${leases} l`)} on l.transport = k.t and l.bucket = k.b
      ${shareOf('l')}`,
    ),
    lockRows: statement(
      'lock rows',
      `select p.parked_id, p.id, p.transport, p.bucket, p.\`key\`, p.state, p.blocking, p.sending_epoch
      from ${byId} ${updateOf('p')}${coordination === 'rowLock' ? ' skip locked' : ''}`, // held while it is published
    ),
    requeue: statement(
      'requeue',
      `update ${byId} set p.state = ${WAITING}, p.attempts = 0, p.due_at = utc_timestamp(6),
      p.blocking = ${blocks}, p.sending_epoch = null, p.died_at = null, p.announced = 0`,
    ),
    remove: statement('remove parked', `delete p from ${byId}`),
    ...keyStatements(names, settings),
  };
}

function keyStatements(
  { parked, transports }: Pick<TableNames, 'parked' | 'transports'>,
  { ordering, buckets }: StoreSettings,
) {
  const allBuckets = Array.from({ length: buckets }, (_, bucket) => bucket).join(', ');
  return {
    isThere: statement('is it there', `select 1 from ${parked} p where p.parked_id = ?`),
    placesOf: statement(
      'places of a key',
      ordering === 'global'
        ? `select id, 0 from ${transports} where ? is not null` // whatever is first there
        : `select distinct transport, bucket from ${parked} force index (by_key)
          where transport in (select id from ${transports}) and bucket in (${allBuckets}) and blocking = 1 and \`key\` = ?`,
    ),
    unblock: statement(
      'unblock',
      `update ${parked} force index (by_key) set blocking = 0
      where transport = ? and bucket = ? and blocking = 1 and \`key\` = ? and state = ${DEAD}`,
    ),
  };
}

const idRows = (ids: readonly string[]): string => jsonRows(ids.map((id) => [BigInt(id)]));

function readCandidate(row: readonly unknown[]): Candidate {
  const [parkedId, id, transport, bucket, key, state, blocking, epoch] = row;
  return {
    parkedId: String(parkedId),
    id: String(id),
    transport: Number(transport),
    bucket: Number(bucket),
    key: readKey(key) ?? '',
    state: Number(state),
    blocking: Number(blocking) === 1,
    epoch: epoch === null ? null : String(epoch),
  };
}

function unique(keys: readonly KeyOfTransport[]): KeyOfTransport[] {
  return [...new Map(keys.map((key) => [`${key.transport} ${key.bucket} ${key.key}`, key])).values()];
}
