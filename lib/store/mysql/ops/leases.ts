import { waitedTooLong } from '../../database-errors.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { Acquired, Beat, HeldLease, Instance, Lease, LeaseStore } from '../../lease-store.js';
import type { TableNames } from '../../names.js';
import { readPause } from '../../pauses/pause-store.js';
import { PAUSE_COLUMNS } from '../pauses/pauses.js';
import { statement, type Statement } from '../../sql.js';
import { shareOf } from '../capabilities.js';
import { jsonRows, jsonTable, LEASES, lookUp } from '../json-rows.js';
import { inTransaction, retried } from '../../retry.js';
import { marks, sized } from '../statements.js';

export const NOW = 'utc_timestamp(6)';
export const EXPIRY = `${NOW} + interval ? microsecond`;
export const LONG_AGO = `'1970-01-01 00:00:00'`;
/** Columns of the row of an instance. */
export const INSTANCE = `owner, transports, info, timestampdiff(microsecond, ${LONG_AGO}, ${NOW}) div 1000,
        timestampdiff(microsecond, ${LONG_AGO}, expires_at) div 1000`;
export const readInstances = (rows: readonly (readonly unknown[])[]): Beat['instances'] =>
  rows.map(([name, list, text, , until]) => ({
    owner: name as string,
    transports: JSON.parse(list as string) as number[],
    info: text as string,
    until: Number(until),
  }));

/** What is held, by whom, and an end of what nobody living holds. */
interface HeldLeases {
  list(): Promise<HeldLease[]>;
  end(leases: readonly HeldLease[], inMs: number): Promise<Lease[]>;
}

/** All times are the server's. Epochs grow at every acquisition, also by the same owner. */
export class MysqlLeases implements LeaseStore {
  /** @internal */ readonly sql: ReturnType<typeof leaseStatements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    readonly held: HeldLeases,
  ) {
    this.sql = leaseStatements(names);
  }

  heldLeases(): Promise<HeldLease[]> {
    return this.held.list();
  }

  endLeases(leases: readonly HeldLease[], inMs: number): Promise<Lease[]> {
    return this.held.end(leases, inMs);
  }

  async acquire(request: Parameters<LeaseStore['acquire']>[0]): Promise<Acquired[]> {
    const { owner, leaseMs, transport, limit, only } = request;
    if (limit <= 0 || only?.length === 0) return [];
    return inTransaction(this.database.connection('lease'), async (tx) => {
      const free = this.sql.free(only?.length ?? 0).bind(transport, ...(only ?? []), limit);
      const taken = (await tx.run(free)).rows.map(([bucket, epoch, before, crashes, trial]) => ({
        transport,
        bucket: Number(bucket),
        epoch: String(BigInt(epoch as string) + 1n),
        crashes: Number(crashes) + (before === null || before === owner ? 0 : 1),
        trial: trial as string | null,
        former: before === owner ? null : (before as string | null),
      }));
      if (taken.length === 0) return [];
      const rows = taken.map(({ bucket, crashes }) => [transport, bucket, crashes]);
      await tx.run(this.sql.take.bind(jsonRows(rows), owner, Math.round(leaseMs * 1000)));
      return taken;
    });
  }

  async renew(owner: string, leaseMs: number): Promise<Lease[]> {
    const connection = this.database.connection('lease');
    const time = Math.round(leaseMs * 1000);
    const renewed = inTransaction(connection, async (tx) => {
      await tx.run(this.sql.lockOwn.bind(owner));
      await tx.run(this.sql.renew.bind(time, owner));
      return readLeases(await tx.run(this.sql.held.bind(owner)));
    });
    return renewed.catch((error: unknown) => {
      if (!waitedTooLong(error)) throw error;
      // Somebody holds one of them for long: that one runs out, and not the others with it.
      return inTransaction(connection, async (tx) => {
        const free = readLeases(await tx.run(this.sql.lockFree.bind(owner)));
        await tx.run(this.sql.renewFree.bind(leaseRows(free), time));
        return free;
      });
    });
  }

  async giveBack(owner: string, leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    const rows = leaseRows(leases);
    await retried(() => this.database.connection('lease').run(this.sql.giveBack.bind(rows, owner)));
  }

  async noteTrial(owner: string, lease: Lease, id: string | null): Promise<boolean> {
    const { transport, bucket, epoch } = lease;
    const connection = this.database.connection('lease');
    // In this order: between the two there is no trial, rather than the one before, which is through.
    await retried(() => connection.run(this.sql.endTrials.bind(transport, owner, bucket)));
    const note = this.sql.noteTrial.bind(id, transport, bucket, epoch, owner);
    return (await retried(() => connection.run(note))).affected > 0;
  }

  async lasted(owner: string, leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    const rows = leaseRows(leases);
    await retried(() => this.database.connection('lease').run(this.sql.lasted.bind(rows, owner)));
  }

  async beat(instance: Instance, ttlMs: number): Promise<Beat> {
    const lease = this.database.connection('lease');
    const transports = JSON.stringify(instance.transports);
    const ttl = Math.round(ttlMs * 1000);
    const { owner, info } = instance;
    await retried(() => lease.run(this.sql.beat.bind(owner, transports, info, ttl, transports, info, ttl)));
    return this.living();
  }

  async living(): Promise<Beat> {
    const { rows: all } = await this.database.connection('lease').run(this.sql.alive.bind());
    const rows = all.filter(([owner]) => owner !== null);
    const pauses = all.filter(([owner]) => owner === null).map((row) => readPause(row.slice(5)));
    return { instances: readInstances(rows), now: Number(rows[0]?.[3]), pauses };
  }

  async leave(owner: string): Promise<void> {
    await retried(() => this.database.connection('lease').run(this.sql.leave.bind(owner)));
  }

  async expire(): Promise<(Lease & { owner: string })[]> {
    const lease = this.database.connection('lease');
    const cleared = await inTransaction(lease, async (tx) => {
      const rows = (await tx.run(this.sql.expired.bind())).rows;
      const leases = rows.map(([transport, bucket, epoch, owner]) => ({
        transport: Number(transport),
        bucket: Number(bucket),
        epoch: String(epoch),
        owner: String(owner),
      }));
      if (leases.length > 0) await tx.run(this.sql.clear.bind(leaseRows(leases)));
      return leases;
    });
    await retried(() => lease.run(this.sql.dropInstances.bind()));
    await retried(() => lease.run(this.sql.dropFlushRows.bind()));
    return cleared;
  }
}

function renewals(leases: string) {
  return {
    // `select … for update` would wait for the leases of others, too.
    lockOwn: statement('lock own leases', `update ${leases} set owner = owner where owner = ?`),
    renew: statement('renew', `update ${leases} set expires_at = ${EXPIRY} where owner = ? and expires_at > ${NOW}`),
    lockFree: statement(
      'lock free leases',
      `select transport, bucket, epoch from ${leases} where owner = ? and expires_at > ${NOW} for update skip locked`,
    ),
    renewFree: statement(
      'renew free leases',
      `update ${lookUp(LEASES, `${leases} l`)} on l.transport = k.t and l.bucket = k.b set l.expires_at = ${EXPIRY}`,
    ),
  };
}

function leaseStatements(names: TableNames) {
  const { leases, meta } = names;
  return {
    ...trialStatements(names),
    ...instanceStatements(names),
    free: sized(
      (only) => `select bucket, epoch, owner, crashes, trial from ${leases} where transport = ? and expires_at <= ${NOW}
        ${only > 0 ? `and bucket in (${marks(only)})` : ''} order by bucket limit ? for update skip locked`,
    ),
    take: statement(
      'take leases',
      `update ${lookUp(jsonTable({ t: 'smallint', b: 'smallint', c: 'int' }), `${leases} l`)}
        on l.transport = k.t and l.bucket = k.b
      set l.owner = ?, l.epoch = l.epoch + 1, l.crashes = k.c, l.expires_at = ${EXPIRY}`,
    ),
    // First: a statement's time is that of its beginning, and a lease may run out while it is waited for. Changes nothing; a
    ...renewals(leases),
    held: statement('held', `select transport, bucket, epoch from ${leases} where owner = ? and expires_at > ${NOW}`),
    giveBack: statement(
      'give back',
      `update ${lookUp(LEASES, `${leases} l`)} on l.transport = k.t and l.bucket = k.b
      set l.owner = null, l.expires_at = ${LONG_AGO}, l.trial = null where l.owner = ? and l.epoch = k.e`,
    ),
    expired: statement(
      'expired',
      `select transport, bucket, epoch, owner from ${leases}
      where owner is not null and expires_at <= ${NOW} order by transport, bucket for update skip locked`,
    ),
    clear: statement(
      'clear',
      `update ${lookUp(LEASES, `${leases} l`)} on l.transport = k.t and l.bucket = k.b
      set l.owner = null, l.crashes = l.crashes + 1 where l.epoch = k.e`,
    ),
    dropFlushRows: statement(
      'drop flush rows',
      `delete from ${meta}
      where name like 'flush:%' and value < cast(${NOW} - interval 1 day as char)`,
    ),
  } satisfies Record<string, Statement | ((count: number) => Statement)>;
}

/** What a crash leaves: the lease's row says who was on trial. */
function trialStatements({ leases }: TableNames) {
  return {
    noteTrial: statement(
      'note trial',
      `update ${leases} set trial = ? where transport = ? and bucket = ? and epoch = ? and owner = ? and expires_at > ${NOW}`,
    ),
    endTrials: statement(
      'end poison',
      `update ${leases} set trial = null where transport = ? and owner = ? and bucket <> ? and trial is not null`,
    ),
    lasted: statement(
      'lasted',
      `update ${lookUp(LEASES, `${leases} l`)} on l.transport = k.t and l.bucket = k.b
      set l.crashes = 0, l.trial = null where l.owner = ? and l.epoch = k.e`,
    ),
  };
}

function instanceStatements({ instances, pauses }: TableNames) {
  const none = 'null, null, null, null, null, null';
  return {
    beat: statement(
      'beat',
      `insert into ${instances} (owner, transports, info, expires_at) values (?, ?, ?, ${EXPIRY})
      on duplicate key update transports = ?, info = ?, expires_at = ${EXPIRY}`,
    ),
    alive: statement(
      'alive',
      `select ${INSTANCE}, ${none} from ${instances} where expires_at > ${NOW}
      union all select null, null, null, null, null, ${PAUSE_COLUMNS} from ${pauses} p`,
    ),
    leave: statement('leave', `delete from ${instances} where owner = ?`),
    dropInstances: statement('drop instances', `delete from ${instances} where expires_at <= ${NOW}`),
  };
}

export const leaseRows = (leases: readonly Lease[]): string =>
  jsonRows(leases.map(({ transport, bucket, epoch }) => [transport, bucket, BigInt(epoch)]));

export function readLeases({ rows }: { rows: readonly (readonly unknown[])[] }): Lease[] {
  return rows.map(([transport, bucket, epoch]) => ({
    transport: Number(transport),
    bucket: Number(bucket),
    epoch: String(epoch),
  }));
}

/**
 * The fence: a share lock on the lease rows that this owner holds in these epochs. Until the transaction ends nobody
 * can take them over, so that what it writes is written by the owner.
 */
export class MysqlFence {
  /** @internal */ readonly lock: (alive: boolean) => Statement;

  constructor(names: TableNames) {
    const lock = (name: string, more: string): Statement =>
      statement(
        name,
        `select l.transport, l.bucket, l.epoch
      from ${lookUp(LEASES, `${names.leases} l`)} on l.transport = k.t and l.bucket = k.b
      where l.owner = ? and l.epoch = k.e${more} ${shareOf('l')}`,
      );
    const [any, alive] = [lock('fence', ''), lock('fence of a take', ` and l.expires_at > ${NOW}`)];
    this.lock = (mustLive) => (mustLive ? alive : any);
  }

  /**
   * Bucket → its lease, of those that still are the owner's. One transport per call.
   * @param alive and have not run out: who begins a publish needs that. What became of one is the owner's to write until
   * somebody takes over.
   */
  async hold(tx: SqlExecutor, owner: string, leases: readonly Lease[], alive: boolean): Promise<Map<number, Lease>> {
    if (leases.length === 0) return new Map();
    if (leases.some(({ transport }) => transport !== leases[0]?.transport)) {
      throw new TypeError('The leases of one call belong to one transport.');
    }
    const held = readLeases(await tx.run(this.lock(alive).bind(leaseRows(leases), owner)));
    return new Map(held.map((lease) => [lease.bucket, lease]));
  }
}
