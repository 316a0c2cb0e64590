import type { SqlExecutor } from '../../executor.js';
import type { Bucket, Lease } from '../../lease-store.js';
import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import type { Becomes, InstanceSql, LeaseSql } from '../../sql/leases.js';
import { shareOf, updateOf } from '../capabilities.js';
import { ID, jsonRows, jsonTable, LEASES, lookUp } from '../json-rows.js';
import { PAUSE_COLUMNS } from '../pauses/pauses.js';
import { marks, sized, times } from '../statements.js';

const NOW = 'utc_timestamp(6)';
const LONG_AGO = `timestamp'1970-01-01 00:00:00'`;
const AFTER = (microseconds: string): string => `${NOW} + interval ${microseconds} microsecond`;
const MILLISECONDS = (time: string): string => `timestampdiff(microsecond, ${LONG_AGO}, ${time}) div 1000`;
const INSTANCE = `owner, transports, info, ${MILLISECONDS(NOW)}, ${MILLISECONDS('expires_at')}`;
const LEASE = `l.transport, l.bucket, l.epoch, l.owner, l.crashes, l.trial, l.expires_at > ${NOW}, l.expires_at,
  timestampdiff(microsecond, ${NOW}, l.expires_at) / 1000`;
const microseconds = (milliseconds: number): number => Math.round(milliseconds * 1000);

export function leaseSql(names: TableNames): LeaseSql {
  const { leases } = names;
  const on = 'on l.transport = k.t and l.bucket = k.b';
  const these = `${lookUp(jsonTable({ t: 'smallint', b: 'smallint' }), `${leases} l`)} ${on}`;
  const lock = (name: string, others: string): Statement =>
    statement(name, `select l.transport, l.bucket from ${these} ${updateOf('l')} ${others}`);
  const locks = { wait: lock('lock leases', ''), 'skip locked': lock('lock free leases', 'skip locked') };
  const read = statement('read leases', `select ${LEASE} from ${these}`);
  const lockFree = sized(
    (only) => `select transport, bucket from ${leases} where transport = ? and expires_at <= ${NOW}
      ${only > 0 ? `and bucket in (${marks(only)})` : ''} order by bucket limit ? for update skip locked`,
  );
  return {
    owned: statement('owned leases', `select ${LEASE} from ${leases} l where l.owner is not null`),
    ownedBy: statement('own leases', `select ${LEASE} from ${leases} l where l.owner = ?`),
    read: (places) => read.bind(placeRows(places)),
    lockFree: (transport, only = [], limit) => lockFree(only.length).bind(transport, ...only, limit),
    lock: (places, others) => locks[others].bind(placeRows(places)),
    write: (columns, all) => {
      const types = columns.map((column) => [column, WRITES[column][0]]);
      const list = jsonTable({ t: 'smallint', b: 'smallint', ...Object.fromEntries(types) });
      const sets = columns.map((column) => WRITES[column][1]).join(', ');
      const rows = all.map((lease) => [
        lease.transport,
        lease.bucket,
        ...columns.map((column) => lease[column] ?? null),
      ]);
      return statement(undefined, `update ${lookUp(list, `${leases} l`)} ${on} set ${sets}`).bind(jsonRows(rows));
    },
    ...instanceSql(names),
  };
}

/** Column of a list `k` → its type, and what it sets. */
const WRITES: Readonly<Record<keyof Becomes, readonly [type: string, sets: string]>> = {
  owner: ['varchar(64) character set ascii collate ascii_bin', 'l.owner = k.owner'],
  epoch: ['bigint unsigned', 'l.epoch = k.epoch'],
  crashes: ['int', 'l.crashes = k.crashes'],
  trial: [ID, 'l.trial = k.trial'],
  endsIn: ['double', `l.expires_at = coalesce(${AFTER('round(k.endsIn * 1000)')}, ${LONG_AGO})`],
};

function instanceSql({ instances, pauses, meta }: TableNames): InstanceSql {
  const beat = statement(
    'beat',
    `insert into ${instances} (owner, transports, info, expires_at) values (?, ?, ?, ${AFTER('?')})
      on duplicate key update transports = values(transports), info = values(info), expires_at = values(expires_at)`,
  );
  const none = (count: number): string => times(count, 'null', ', ');
  return {
    beat: ({ owner, transports, info }, ttlMs) =>
      beat.bind(owner, JSON.stringify(transports), info, microseconds(ttlMs)),
    living: statement(
      'living',
      `select ${INSTANCE}, ${none(6)} from ${instances} where expires_at > ${NOW}
      union all select ${none(5)}, ${PAUSE_COLUMNS} from ${pauses} p`,
    ),
    all: statement('relays', `select ${INSTANCE} from ${instances} order by expires_at desc limit ?`),
    leave: statement('leave', `delete from ${instances} where owner = ?`),
    sweeps: [
      statement('sweep instances', `delete from ${instances} where expires_at <= ${NOW}`),
      statement(
        'sweep flush rows',
        `delete from ${meta} where name like 'flush:%' and value < cast(${NOW} - interval 1 day as char)`,
      ),
    ],
  };
}

const placeRows = (places: readonly Bucket[]): string =>
  jsonRows(places.map(({ transport, bucket }) => [transport, bucket]));
export const leaseRows = (leases: readonly Lease[]): string =>
  jsonRows(leases.map(({ transport, bucket, epoch }) => [transport, bucket, BigInt(epoch)]));

function readLeases({ rows }: { rows: readonly (readonly unknown[])[] }): Lease[] {
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
  private readonly lock: (alive: boolean) => Statement;

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
