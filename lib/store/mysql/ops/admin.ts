import { systemClock } from '../../../time/clock.js';
import { keyBytes } from '../../../message/key-bytes.js';
import { compareSeq } from '../../../outbox-message.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import {
  LEFT_COUNT_LIMIT,
  type AdminStore,
  type Change,
  type GlanceRequest,
  type MessageFilter,
  type OperatorReport,
  type TransportGlance,
  type TransportStats,
} from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Deleted } from '../../elsewhere.js';
import { meansReady, statesOf, transactionsOf } from '../../operator-rows.js';
import { statement } from '../../sql.js';
import { shareOf, updateOf } from '../capabilities.js';
import { DEAD, readKey, stateNumber, WAITING } from '../columns.js';
import { MysqlTooLate, SEARCH_TIMEOUT } from './admin-too-late.js';
import { MysqlDedupKeys } from '../ready/dedup-keys.js';
import { MysqlFind } from './find.js';
import type { MysqlGlance } from './glance.js';
import type { MysqlStats } from './stats.js';
import { MysqlUnowned } from './cancel-unowned.js';
import { jsonRows, jsonTable, lookUp, PARKED_IDS } from '../json-rows.js';
import { inTransaction } from '../retry.js';
import type { KeyOfTransport, MysqlWake } from '../parked/wake.js';

const OF_KEYS = 'if(p.`key` is null, 0, 1)';

const numbersOf = (change: Change, filter: MessageFilter): number[] => statesOf(change, filter).map(stateNumber);
/** Whether a row that is tried again holds later ones back. */
const BLOCKS = { key: OF_KEYS, strict: OF_KEYS, none: '0', global: '1' } as const;
interface Candidate extends KeyOfTransport {
  readonly parkedId: string;
  readonly id: string;
  readonly state: number;
  readonly blocking: boolean;
  readonly epoch: string | null;
}
/** Ids by what became of them in the parked table. */
class Outcome {
  readonly changed: Deleted[] = [];
  readonly done = new Set<string>();
  /** Being sent, or in a state that the action does not change. */
  readonly untouched = new Set<string>();
  /** Rows that the filter's limit counts: those that are being sent, too. */
  looked = 0;
  /** Every row of the filter was looked at. */
  sawAll = true;
  /** Rows that the limit left out. */
  left = 0;
  /** For what is looked for before it is changed. */
  readonly deadline = systemClock.monotonic() + SEARCH_TIMEOUT;

  deleted(rows: readonly Deleted[]): void {
    for (const row of rows) {
      this.changed.push(row);
      this.done.add(row.id);
    }
  }
}

/** What operators may do: only with parked rows, and never with one that is being sent. */
export class MysqlAdmin implements AdminStore {
  /** @internal */ readonly sql: ReturnType<typeof adminStatements>;
  /** @internal */ readonly find: MysqlFind;
  /** @internal */ readonly tooLate: MysqlTooLate;
  /** @internal */ readonly keys: MysqlDedupKeys;
  /** @internal */ readonly unowned: MysqlUnowned;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    settings: StoreSettings,
    readonly parts: { readonly wake: MysqlWake; readonly stats: MysqlStats; readonly glance: MysqlGlance },
  ) {
    this.find = new MysqlFind(names, settings);
    this.tooLate = new MysqlTooLate(() => database.connection('admin'), names, settings, this.find);
    this.keys = new MysqlDedupKeys(database, names, this.tooLate);
    this.unowned = new MysqlUnowned(database, names, { search: this.tooLate, keys: this.keys });
    this.sql = adminStatements(names, this.find, BLOCKS[settings.ordering]);
  }

  requeue(filter: MessageFilter): Promise<OperatorReport> {
    return this.apply('requeue', filter);
  }

  discard(filter: MessageFilter): Promise<OperatorReport> {
    return this.apply('discard', filter);
  }

  cancel(filter: MessageFilter): Promise<OperatorReport> {
    return this.apply('cancel', filter);
  }

  stats(): Promise<TransportStats[]> {
    return this.parts.stats.stats();
  }

  parkedByTopic(transport: number, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.parts.stats.parkedByTopic(transport, limit);
  }

  glance(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    return this.parts.glance.look(request);
  }

  /** @internal */ async apply(action: Change, filter: MessageFilter): Promise<OperatorReport> {
    const outcome = new Outcome();
    await this.applyOnce(action, filter, outcome);
    if (action === 'cancel' && meansReady(filter))
      outcome.deleted(await this.unowned.cancel(filter, filter.limit - outcome.looked));
    const report = await this.report(action, filter, outcome);
    if (action !== 'requeue') await this.keys.after(outcome.changed);
    return report;
  }

  async count(action: Change, filter: MessageFilter): Promise<number> {
    const counted = this.find.countParked(filter, numbersOf(action, filter), filter.limit);
    return Number((await this.database.connection('admin').run(counted)).rows[0]?.[0]);
  }

  /** @internal */ async report(action: Change, filter: MessageFilter, outcome: Outcome): Promise<OperatorReport> {
    const { done, untouched } = outcome;
    if (filter.ids === undefined) {
      const left = await this.leave(action, filter, outcome);
      const late = await this.tooLate.byFilter(
        filter,
        outcome.sawAll ? numbersOf(action, filter) : [],
        numbersOf(action, filter),
      );
      const tooLate = [...new Set([...left, ...late])].filter((id) => !done.has(id));
      return { done: [...done], tooLate: tooLate.slice(0, filter.limit), notFound: [], left: outcome.left };
    }
    const ids = [...new Set(filter.ids)];
    const open = new Set(ids.filter((id) => !done.has(id) && !untouched.has(id)));
    await this.explain(action, filter, outcome, open);
    await this.leave(action, filter, outcome);
    const tooLate = ids.filter((id) => !done.has(id) && !open.has(id));
    return { done: [...done], tooLate, notFound: [...open], left: outcome.left };
  }

  /** @internal Takes out of `done` what another transport may still publish, and returns it. */
  async leave(action: Change, filter: MessageFilter, { changed, done }: Outcome): Promise<Set<string>> {
    if (action !== 'cancel') return new Set();
    const left = await this.tooLate.elsewhere(changed, filter);
    for (const id of left) done.delete(id);
    return left;
  }

  /**
   * @internal Takes out of `open` what is there, as the rest of the filter says. First ready, then parked: rows move only
   * in this direction, so none slips through between the two looks; what did so before them is changed after all.
   */
  async explain(action: Change, filter: MessageFilter, outcome: Outcome, open: Set<string>): Promise<void> {
    if (open.size === 0) return;
    for (const id of await this.tooLate.readyAmong([...open], filter)) open.delete(id);
    if (open.size === 0) return;
    const admin = this.database.connection('admin');
    const parked = await this.find.parkedAmong(admin, [...open], filter);
    if (parked.length > 0) await this.applyOnce(action, { ...filter, ids: parked }, outcome);
    for (const id of parked) open.delete(id);
  }

  async release({ key, transport }: { key: string; transport?: number }): Promise<{ released: number }> {
    const admin = this.database.connection('admin');
    return { released: await inTransaction(admin, (tx) => this.releaseIn(tx, { key, transport })) };
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

  /** @internal */ async applyOnce(action: Change, filter: MessageFilter, outcome: Outcome): Promise<void> {
    const admin = this.database.connection('admin');
    const limit = filter.limit - outcome.looked;
    if (limit <= 0) return;
    const states = numbersOf(action, filter);
    const { rows } = await admin.run(this.find.parked(filter, states, limit));
    outcome.looked += rows.length;
    outcome.sawAll &&= rows.length < limit;
    if (rows.length >= limit) {
      const counted = await admin.run(this.find.countParked(filter, states, limit + LEFT_COUNT_LIMIT));
      outcome.left = Math.max(0, Number(counted.rows[0]?.[0]) - limit);
    }
    for (const some of transactionsOf(rows, action)) {
      const { changed, untouched } = await this.changeSome(action, states, some, outcome.deadline);
      outcome.deleted(changed);
      for (const { id } of untouched) outcome.untouched.add(id);
    }
  }

  /**
   * One transaction.
   * @param some parked id, id, transport, bucket
   * @param also is done in it
   */
  async changeSome(
    action: Change,
    states: readonly number[],
    some: readonly (readonly unknown[])[],
    deadline: number,
    also: (tx: SqlExecutor, changed: number) => Promise<void> = async () => undefined,
  ): Promise<{ changed: Candidate[]; untouched: Candidate[] }> {
    const ids = some.map(([parkedId]) => String(parkedId)).sort(compareSeq); // everybody locks in this order
    const keys = action === 'requeue' ? [] : await this.keys.before(some.map(readFound), deadline);
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const result = await this.change(tx, action, states, ids);
      await this.keys.free(tx, keys, result.changed);
      await also(tx, result.changed.length);
      return result;
    });
  }

  /**
   * @internal The lease rows first, then the rows: while they are locked nobody takes the buckets over, so that the
   * epoch that we compare with is the only one in which a row can be sent; a `take` of the owner waits for the row.
   */
  async change(
    tx: SqlExecutor,
    action: Change,
    states: readonly number[],
    parkedIds: readonly string[],
  ): Promise<{ changed: Candidate[]; untouched: Candidate[] }> {
    const { rows, isSent } = await this.lock(tx, parkedIds);
    const mayChange = (row: Candidate): boolean => !isSent(row) && states.includes(row.state);
    const changed = rows.filter(mayChange);
    if (changed.length > 0) {
      const list = idRows(changed.map(({ parkedId }) => parkedId));
      await tx.run(action === 'requeue' ? this.sql.requeue.bind(list) : this.sql.remove.bind(list));
      if (action !== 'requeue') await this.parts.wake.wake(tx, unique(changed.filter(({ blocking }) => blocking)));
    }
    return { changed, untouched: rows.filter((row) => !mayChange(row)) };
  }

  /** Locks a row as {@link change} does. @returns whether nobody is sending it; `false` also of one that is not there */
  async holdUnsent(tx: SqlExecutor, parkedId: string): Promise<boolean> {
    const { rows, isSent } = await this.lock(tx, [parkedId]);
    return rows.some((row) => !isSent(row));
  }

  /** @internal */ async lock(
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

function adminStatements({ parked, leases, transports }: TableNames, find: MysqlFind, blocks: string) {
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
      from ${byId} ${updateOf('p')}${find.settings.coordination === 'rowLock' ? ' skip locked' : ''}`, // held while it is published
    ),
    requeue: statement(
      'requeue',
      `update ${byId} set p.state = ${WAITING}, p.attempts = 0, p.due_at = utc_timestamp(6),
      p.blocking = ${blocks}, p.sending_epoch = null, p.died_at = null, p.announced = 0`,
    ),
    remove: statement('remove parked', `delete p from ${byId}`),
    placesOf: statement(
      'places of a key',
      find.settings.ordering === 'global'
        ? `select id, 0 from ${transports} where ? is not null` // whatever is first there
        : `select distinct transport, bucket from ${parked} force index (by_key)
          where transport in (select id from ${transports}) and ${find.ofKey('blocking = 1')}`,
    ),
    unblock: statement(
      'unblock',
      `update ${parked} force index (by_key) set blocking = 0
      where transport = ? and bucket = ? and blocking = 1 and \`key\` = ? and state = ${DEAD}`,
    ),
  };
}

const readFound = ([, id, transport, bucket]: readonly unknown[]): Deleted => ({
  id: String(id),
  transport: Number(transport),
  bucket: Number(bucket),
});
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
