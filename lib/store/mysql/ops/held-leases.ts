import type { SqlDatabase } from '../../executor.js';
import type { HeldLease, Lease } from '../../lease-store.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { LEASES, lookUp } from '../json-rows.js';
import { EXPIRY, leaseRows, NOW, readLeases } from './leases.js';
import { inTransaction } from '../../retry.js';

/** Who holds what, and an end of what nobody living holds. */
export class MysqlHeldLeases {
  /** @internal */ readonly sql: ReturnType<typeof heldStatements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
  ) {
    this.sql = heldStatements(names);
  }

  async list(): Promise<HeldLease[]> {
    const { rows } = await this.database.connection('lease').run(this.sql.all.bind());
    return rows.map((row) => ({
      ...(readLeases({ rows: [row] })[0] as Lease),
      owner: row[3] as string,
      until: row[4] as string,
      remaining: Number(row[5]) / 1000,
    }));
  }

  async end(leases: readonly HeldLease[], inMs: number): Promise<Lease[]> {
    return inTransaction(this.database.connection('lease'), async (tx) => {
      const ended: Lease[] = [];
      for (const lease of leases) {
        const { transport, bucket, epoch, owner, until } = lease;
        ended.push(...readLeases(await tx.run(this.sql.lockHeld.bind(transport, bucket, epoch, owner, until))));
      }
      if (ended.length > 0) await tx.run(this.sql.end.bind(leaseRows(ended), Math.round(inMs * 1000)));
      return ended;
    });
  }
}

function heldStatements({ leases }: TableNames) {
  return {
    all: statement(
      'all held',
      `select transport, bucket, epoch, owner, cast(expires_at as char), timestampdiff(microsecond, ${NOW}, expires_at)
      from ${leases} where owner is not null and expires_at > ${NOW} order by transport, bucket`,
    ),
    lockHeld: statement(
      'lock a held lease',
      `select transport, bucket, epoch from ${leases} force index (primary) where transport = ? and bucket = ? and epoch = ? and owner = ?
      and cast(expires_at as char) = ? for update skip locked`,
    ),
    // The owner stays: whoever takes it learns that it ran out in these hands.
    end: statement(
      'end leases',
      `update ${lookUp(LEASES, `${leases} l`)} on l.transport = k.t and l.bucket = k.b
      set l.expires_at = ${EXPIRY} where l.epoch = k.e`,
    ),
  };
}
