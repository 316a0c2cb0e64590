import { waitedTooLong } from '../database-errors.js';
import type { SqlConnection, SqlDatabase, SqlExecutor, SqlResult } from '../executor.js';
import type { Acquired, Beat, Bucket, HeldLease, Instance, Lease, LeaseStore } from '../lease-store.js';
import { readPause } from '../pauses/pause-store.js';
import { inTransaction, retried } from '../retry.js';
import type { Sql, Statement } from '../sql.js';
import { readText, type Dialect } from './dialect.js';

/** Leases and instances, in the words of one database. Times are its own; a value that is a time is milliseconds from now. */
export interface LeaseSql extends InstanceSql {
  /** Leases that have an owner, and those of one owner; each with the columns of a {@link LeaseRow} in their order. */
  readonly owned: Statement;
  readonly ownedBy: Statement;
  /** The same of these, whoever's. */
  read(places: readonly Bucket[]): Sql;
  /** Locks those that have run out, and passes by what somebody else has locked. Transport and bucket of each. */
  lockFree(transport: number, only: readonly number[] | undefined, limit: number): Sql;
  /** Locks these in their order. Transport and bucket of each. */
  lock(places: readonly Bucket[], others: Others): Sql;
  /** Writes these columns and no other: not everybody may write all. */
  write(columns: readonly (keyof Becomes)[], leases: readonly (Bucket & Partial<Becomes>)[]): Sql;
}
export interface InstanceSql {
  beat(instance: Instance, ttlMs: number): Sql;
  /**
   * Owner, transports, info, what time it is, when the row runs out, and the six columns of a pause: a row is of an instance or,
   * without an owner, of a pause.
   */
  readonly living: Statement;
  /** Of all instances the first five columns, those that run out last first: limit. */
  readonly all: Statement;
  readonly leave: Statement;
  /** What the unlocker deletes beside. */
  readonly sweeps: readonly Statement[];
}
/** What becomes of a row that somebody else has locked. */
export type Others = 'wait' | 'skip locked';

/** A lease as it stands in its row. */
interface LeaseRow extends Lease {
  readonly owner: string | null;
  readonly crashes: number;
  readonly trial: string | null;
  readonly lives: boolean;
  readonly until: string;
  /** Milliseconds. */
  readonly remaining: number;
}
/** What can become of a lease. */
export interface Becomes {
  readonly owner: string | null;
  readonly epoch: string;
  readonly crashes: number;
  readonly trial: string | null;
  /** Milliseconds from now; `null`: long ago. */
  readonly endsIn: number | null;
}
/** @returns what becomes of a lease that is locked, for all of one change in the same columns; `undefined`: it stays as it is */
type Judge = (lease: LeaseRow) => Partial<Becomes> | undefined;
interface Change {
  readonly was: LeaseRow;
  readonly becomes: Partial<Becomes>;
}
const FREE = { owner: null, endsIn: null };

/** Relays whose rows are read. */
const RELAYS_LIMIT = 1_000;

/**
 * Leases and heartbeats, by the database's clock alone. Each change locks its leases in the order of their key, reads them when
 * all are locked, and writes what became of them, in one transaction: what was found before, and what the time was before the
 * locks, does not count.
 */
export class LeaseTable implements LeaseStore {
  constructor(
    private readonly database: SqlDatabase,
    private readonly dialect: Pick<Dialect, 'isTrue'>,
    private readonly sql: LeaseSql,
  ) {}

  /** A lease whose old owner is in the middle of a fenced write is taken at the next try. */
  async acquire({ owner, leaseMs, transport, limit, only }: Parameters<LeaseStore['acquire']>[0]): Promise<Acquired[]> {
    if (limit <= 0 || only?.length === 0) return [];
    const taken = await this.change(this.sql.lockFree(transport, only, limit), ({ owner: former, epoch, crashes }) => ({
      owner,
      epoch: String(BigInt(epoch) + 1n),
      crashes: crashes + (former === null || former === owner ? 0 : 1),
      endsIn: leaseMs,
    }));
    return taken.map(({ was, becomes }) => {
      const { transport, bucket, epoch, crashes, trial } = { ...was, ...becomes };
      return { transport, bucket, epoch, crashes, trial, former: was.owner === owner ? null : was.owner };
    });
  }

  async renew(owner: string, leaseMs: number, lasted: readonly Lease[] = []): Promise<Lease[]> {
    const mine = await this.find(this.sql.ownedBy.bind(owner));
    const forgiven = ifHeld(owner, lasted, { crashes: 0, trial: null });
    const extended: Judge = (lease) =>
      lease.owner === owner && lease.lives ? { endsIn: leaseMs, ...forgiven(lease) } : undefined;
    const renewed = this.changeThese(mine, extended).catch((error: unknown) => {
      // Somebody holds one of them for long: that one runs out, and not the others with it.
      if (waitedTooLong(error)) return this.changeThese(mine, extended, 'skip locked');
      throw error;
    });
    return (await renewed).map(({ was }) => leaseOf(was));
  }

  async giveBack(owner: string, leases: readonly Lease[]): Promise<void> {
    await this.changeThese(leases, ifHeld(owner, leases, { ...FREE, trial: null }));
  }

  async noteTrial(owner: string, lease: Lease, id: string | null): Promise<boolean> {
    const mine = await this.find(this.sql.ownedBy.bind(owner));
    const before = mine.filter((each) => each.transport === lease.transport && each.trial !== null);
    const places = [lease, ...before.filter(({ bucket }) => bucket !== lease.bucket)];
    const changes = await this.changeThese(places, (each) => {
      if (each.owner !== owner) return undefined;
      if (each.bucket !== lease.bucket) return { trial: null };
      return each.epoch === lease.epoch && each.lives ? { trial: id } : undefined;
    });
    return changes.some(({ was }) => was.bucket === lease.bucket);
  }

  async heldLeases(): Promise<HeldLease[]> {
    const owned = await this.find(this.sql.owned.bind());
    return owned.flatMap((row) => (row.owner !== null && row.lives ? [heldLease(row, row.owner)] : []));
  }

  async endLeases(leases: readonly HeldLease[], inMs: number): Promise<Lease[]> {
    const seen = new Map(leases.map((lease) => [placeOf(lease), lease]));
    const judge: Judge = (lease) => {
      const as = seen.get(placeOf(lease));
      const isSame = as?.owner === lease.owner && as?.epoch === lease.epoch && as.until === lease.until;
      return isSame ? { endsIn: inMs } : undefined; // the owner stays: whoever takes it learns that it ran out in these hands
    };
    return (await this.changeThese(leases, judge, 'skip locked')).map(({ was }) => leaseOf(was));
  }

  async expire(): Promise<(Lease & { owner: string })[]> {
    const gone = (await this.find(this.sql.owned.bind())).filter(({ lives }) => !lives);
    const judge: Judge = ({ owner, lives, crashes }) =>
      owner === null || lives ? undefined : { ...FREE, crashes: crashes + 1 };
    const freed = await this.changeThese(gone, judge, 'skip locked');
    for (const sweep of this.sql.sweeps) await this.run(sweep.bind());
    return freed.map(({ was }) => ({ ...leaseOf(was), owner: String(was.owner) }));
  }

  async beat(instance: Instance, ttlMs: number): Promise<Beat> {
    if (ttlMs > 0) await this.run(this.sql.beat(instance, ttlMs));
    else await this.run(this.sql.leave.bind(instance.owner));
    return ttlMs > 0 ? this.living() : { instances: [], now: Date.now() }; // who leaves needs to know of nobody
  }

  async living(also?: 'gone'): Promise<Beat> {
    // Who asks for those that are gone is no relay: it has no other use for the connection of the leases.
    const { rows } = await (also === 'gone'
      ? this.database.connection('admin').run(this.sql.all.bind(RELAYS_LIMIT))
      : this.run(this.sql.living.bind()));
    const pauses = rows.filter(([owner]) => owner === null).map((row) => readPause(row.slice(5)));
    return { ...readInstances(rows.filter(([owner]) => owner !== null)), pauses };
  }

  private get connection(): SqlConnection {
    return this.database.connection('lease');
  }

  private run(sql: Sql): Promise<SqlResult> {
    return retried(() => this.connection.run(sql));
  }

  private async find(sql: Sql): Promise<LeaseRow[]> {
    return this.read(await this.run(sql));
  }

  private async changeThese(places: readonly Bucket[], judge: Judge, others: Others = 'wait'): Promise<Change[]> {
    return places.length === 0 ? [] : this.change(this.sql.lock([...places].sort(byBucket), others), judge);
  }

  private change(lock: Sql, judge: Judge): Promise<Change[]> {
    return inTransaction(this.connection, async (tx: SqlExecutor) => {
      const locked = (await tx.run(lock)).rows.map(readBucket).sort(byBucket);
      if (locked.length === 0) return [];
      const changes = this.read(await tx.run(this.sql.read(locked))).flatMap((was): Change[] => {
        const becomes = judge(was);
        return becomes === undefined ? [] : [{ was, becomes }];
      });
      const columns = new Set(changes.flatMap(({ becomes }) => Object.keys(becomes) as (keyof Becomes)[]));
      const rows = changes.map(({ was, becomes }) => ({ ...was, ...becomes }));
      if (changes.length > 0) await tx.run(this.sql.write([...columns], rows));
      return changes;
    });
  }

  private read({ rows }: SqlResult): LeaseRow[] {
    const all = rows.map((row): LeaseRow => {
      const [, , epoch, owner, crashes, trial, lives, until, remaining] = row;
      return {
        ...readBucket(row),
        epoch: String(epoch),
        owner: readText(owner),
        crashes: Number(crashes),
        trial: readText(trial),
        lives: this.dialect.isTrue(lives),
        until: String(until),
        remaining: Number(remaining),
      };
    });
    return all.sort(byBucket);
  }
}

/** Of these leases those that are still of this owner, in their epochs. */
function ifHeld(owner: string, leases: readonly Lease[], becomes: ReturnType<Judge>): Judge {
  const epochs = new Map(leases.map((lease) => [placeOf(lease), lease.epoch]));
  return (lease) => (lease.owner === owner && lease.epoch === epochs.get(placeOf(lease)) ? becomes : undefined);
}

const readBucket = (row: readonly unknown[]): Bucket => ({ transport: Number(row[0]), bucket: Number(row[1]) });
const leaseOf = ({ transport, bucket, epoch }: Lease): Lease => ({ transport, bucket, epoch });
const heldLease = ({ until, remaining, ...lease }: LeaseRow, owner: string): HeldLease => ({
  ...leaseOf(lease),
  owner,
  until,
  remaining,
});
const placeOf = ({ transport, bucket }: Bucket): string => `${transport} ${bucket}`;
const byBucket = (a: Bucket, b: Bucket): number => a.transport - b.transport || a.bucket - b.bucket;

function readInstances(rows: SqlResult['rows']): Beat {
  const instances = rows.map(([owner, transports, info, , until]) => ({
    owner: owner as string,
    transports: (transports as string).slice(1, -1).split(',').filter(Boolean).map(Number),
    info: info as string,
    until: Number(until),
  }));
  return { instances, now: Number(rows[0]?.[3]) };
}
