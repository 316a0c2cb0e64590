import { systemClock } from '../../../time/clock.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { Lookup } from '../../sql/lookup.js';
import type { DedupKeys } from '../../sql/operators.js';
import type { RowPlace } from '../../sql/row-changes.js';
import { updateOf } from '../capabilities.js';
import { ID, jsonRows, jsonTable, lookUp } from '../json-rows.js';
import { DEADLOCK, errnoOf, inTransaction } from '../../retry.js';
import { LOCK_WAIT_TIMEOUT } from '../errors.js';

/** Milliseconds to wait for those who hold a key. */
const PATIENCE = 5_000;
/** Milliseconds to look for a message among what is ready. */
const SEARCH_TIMEOUT = 2_000;
/** Ids of one look-up. */
const PAGE = 500;

/** `claim` tells the row from a later one with the same key. */
export interface DedupKey {
  readonly key: string;
  readonly claim: string;
  readonly id: string;
}

/** A dedup key ends with what an operator deletes: with its last row that waits, whatever was published or archived before. */
export class MysqlDedupKeys implements DedupKeys<readonly DedupKey[]> {
  private readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    private readonly lookup: Pick<Lookup, 'readyIn'>,
  ) {
    this.sql = statements(names);
  }

  /**
   * Of rows that are to be deleted, the keys that may be free then: no other transport has the message ready. Asked before the
   * transaction, which must not look through a backlog: nothing becomes ready again. What is parked is looked at in it.
   */
  async before(rows: readonly RowPlace[]): Promise<DedupKey[]> {
    const keys = await this.of(rows.map(({ id }) => id));
    if (keys.length === 0) return keys;
    const ids = new Set(keys.map(({ id }) => id));
    const held = await this.readyElsewhere(rows.filter(({ id }) => ids.has(id)));
    return keys.filter(({ id }) => !held.has(id));
  }

  /** Of messages in these rows, those that another transport has ready, or may have: there was no time to look. */
  private async readyElsewhere(rows: readonly RowPlace[]): Promise<Set<string>> {
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    const ours = new Set(rows.map(({ id, transport }) => `${transport} ${id}`));
    const held = new Set<string>();
    for (const place of new Set(rows.map(({ bucket }) => bucket))) {
      const ids = rows.filter(({ bucket }) => bucket === place).map(({ id }) => id);
      const ready = await this.lookup.readyIn(place, ids, deadline);
      if (ready === undefined) for (const id of ids) held.add(id);
      else for (const { id, transport } of ready) if (!ours.has(`${transport} ${id}`)) held.add(id);
    }
    return held;
  }

  /**
   * Behind the deletion, in its transaction. Waits for nobody: renewals of leases wait for this one, and an enqueue that found a
   * key taken holds it until its own transaction ends. {@link after} has those that somebody holds.
   * @returns how many keys are free now
   */
  async free(tx: SqlExecutor, before: readonly DedupKey[], deleted: readonly Pick<RowPlace, 'id'>[]): Promise<number> {
    const ids = new Set(deleted.map(({ id }) => id));
    const keys = before.filter(({ id }) => ids.has(id));
    if (keys.length === 0) return 0;
    const wanted = jsonRows(keys.map(({ key, claim }) => [key, claim]));
    const locked = (await tx.run(this.sql.lock.bind(wanted))).rows.map(
      ([key, id]) => [String(key), String(id)] as const,
    );
    return locked.length > 0 ? this.remove(tx, locked) : 0;
  }

  /**
   * Behind the commit: keys that somebody held, or whose message two deleted at once, one transport each. One key after the
   * other: whoever holds one lock alone is in nobody's way. A transaction that goes on for longer than that keeps its key.
   */
  async after(deleted: readonly RowPlace[]): Promise<void> {
    const deadline = systemClock.monotonic() + PATIENCE;
    for (let from = 0; from < deleted.length; from += PAGE) {
      const some = deleted.slice(from, from + PAGE);
      for (const { key, claim, id } of await this.before(some)) {
        if (systemClock.monotonic() > deadline) return;
        await this.freeOne({ key, claim, id });
      }
    }
  }

  private async freeOne({ key, claim, id }: DedupKey): Promise<void> {
    const { lockOne } = this.sql;
    try {
      await inTransaction(this.database.connection('admin'), async (tx) => {
        const { rows } = await tx.run(lockOne.bind(key, claim));
        if (rows.length > 0) await this.remove(tx, [[key, id]]);
      });
    } catch (error) {
      if (![DEADLOCK, LOCK_WAIT_TIMEOUT].includes(errnoOf(error) as number)) throw error;
    }
  }

  /** Of keys that are locked, those whose message nobody has parked. */
  private async remove(tx: SqlExecutor, locked: readonly (readonly [key: string, id: string])[]): Promise<number> {
    const ids = [...new Set(locked.map(([, id]) => id))];
    const parked = new Set((await tx.run(this.sql.parked.bind(idRows(ids)))).rows.map(([id]) => String(id)));
    const free = locked.filter(([, id]) => !parked.has(id)).map(([key]) => [key]);
    return free.length > 0 ? (await tx.run(this.sql.remove.bind(jsonRows(free)))).affected : 0;
  }

  async of(ids: readonly string[]): Promise<DedupKey[]> {
    if (ids.length === 0) return [];
    const unique = [...new Set(ids)];
    const { rows } = await this.database.connection('admin').run(this.sql.of.bind(idRows(unique)));
    return rows.map(([key, claim, id]) => ({ key: String(key), claim: String(claim), id: String(id) }));
  }
}

const idRows = (ids: readonly string[]): string => jsonRows(ids.map((id) => [id]));

function statements({ dedup, parked }: TableNames) {
  const keys = { h: 'varchar(510)', c: 'char(32)' };
  const ids = jsonTable({ i: ID });
  return {
    of: statement(
      'dedup keys of messages',
      `select hex(d.dedup_key), hex(d.claim), d.id from ${lookUp(ids, `${dedup} d`, 'by_id')} on d.id = k.i`,
    ),
    lock: statement(
      'lock dedup keys',
      `select hex(d.dedup_key), d.id from ${lookUp(jsonTable(keys), `${dedup} d`)}
      on d.dedup_key = unhex(k.h) and d.claim = unhex(k.c) ${updateOf('d')} skip locked`,
    ),
    lockOne: statement(
      'lock dedup key',
      `select 1 from ${dedup} force index (primary) where dedup_key = unhex(?) and claim = unhex(?) for update`,
    ),
    parked: statement('parked ids', `select p.id from ${lookUp(ids, `${parked} p`, 'by_id')} on p.id = k.i`),
    remove: statement(
      'free dedup keys',
      `delete d from ${lookUp(jsonTable({ h: 'varchar(510)' }), `${dedup} d`)} on d.dedup_key = unhex(k.h)`,
    ),
  };
}
