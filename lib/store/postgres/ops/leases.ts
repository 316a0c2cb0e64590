import { waitedTooLong } from '../../database-errors.js';
import type { SqlConnection } from '../../executor.js';
import type { Acquired, Beat, HeldLease, Instance, Lease, LeaseStore } from '../../lease-store.js';
import type { TableNames } from '../../names.js';
import { parsePauses, pausesJson } from '../pauses/pauses.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { plainArray, storableText, textArray } from '../arrays.js';

const MILLISECONDS = 'extract(epoch from clock_timestamp()) operator(pg_catalog.*) 1000';
const UNTIL = 'extract(epoch from expires_at) operator(pg_catalog.*) 1000';
/** Columns of a row `i`. */
export const INSTANCE = `i.owner, i.transports, i.info, ${MILLISECONDS}, ${UNTIL}`;
const INTERVAL = `clock_timestamp() + ?::float8 * interval '1 ms'`;

/** Leases and heartbeats, by the database's clock alone. Rows are locked in the order of their key everywhere. */
export class PostgresLeases implements LeaseStore {
  /** @internal */ readonly sql: ReturnType<typeof leaseStatements> &
    ReturnType<typeof heldStatements> &
    ReturnType<typeof trialStatements> &
    ReturnType<typeof instanceStatements>;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
  ) {
    this.sql = {
      ...leaseStatements(names),
      ...heldStatements(names),
      ...trialStatements(names),
      ...instanceStatements(names),
    };
  }

  async acquire(request: Parameters<LeaseStore['acquire']>[0]): Promise<Acquired[]> {
    const { owner, leaseMs, transport, limit, only } = request;
    if (limit <= 0) return [];
    const buckets = only === undefined ? null : plainArray(only);
    const { rows } = await this.connection().run(
      this.sql.acquire.bind(transport, buckets, buckets, limit, owner, owner, leaseMs),
    );
    return rows
      .map((row) => ({
        ...readLease(row),
        crashes: Number(row[3]),
        trial: row[4] as string | null,
        former: row[5] === owner ? null : (row[5] as string | null),
      }))
      .sort(byBucket);
  }

  async renew(owner: string, leaseMs: number): Promise<Lease[]> {
    const renewed = this.connection()
      .run(this.sql.renew.bind(owner, leaseMs))
      .catch((error: unknown) => {
        // Somebody holds one of them for long: that one runs out, and not the others with it.
        if (waitedTooLong(error)) return this.connection().run(this.sql.renewFree.bind(owner, leaseMs));
        throw error;
      });
    return (await renewed).rows.map(readLease).sort(byBucket);
  }

  async giveBack(owner: string, leases: readonly Lease[]): Promise<void> {
    if (leases.length > 0) await this.connection().run(this.sql.giveBack.bind(...leaseArrays(leases), owner));
  }

  async noteTrial(owner: string, { transport, bucket, epoch }: Lease, id: string | null): Promise<boolean> {
    const note = this.sql.noteTrial.bind(transport, owner, bucket, epoch, bucket, bucket, id);
    const { rows } = await this.connection().run(note);
    return rows.some(([noted]) => Number(noted) === bucket);
  }

  async lasted(owner: string, leases: readonly Lease[]): Promise<void> {
    if (leases.length > 0) await this.connection().run(this.sql.lasted.bind(...leaseArrays(leases), owner));
  }

  async beat(instance: Instance, ttlMs: number): Promise<Beat> {
    const { owner, transports, info } = instance;
    const values = [owner, plainArray(transports), storableText(info), ttlMs, owner] as const;
    return readBeat(await this.connection().run(this.sql.beat.bind(...values)));
  }

  async living(): Promise<Beat> {
    return readBeat(await this.connection().run(this.sql.living.bind()));
  }

  async leave(owner: string): Promise<void> {
    await this.connection().run(this.sql.leave.bind(owner));
  }

  async heldLeases(): Promise<HeldLease[]> {
    const { rows } = await this.connection().run(this.sql.all.bind());
    return rows.map((row) => ({
      ...readLease(row),
      owner: row[3] as string,
      until: row[4] as string,
      remaining: Number(row[5]) * 1000,
    }));
  }

  async endLeases(leases: readonly HeldLease[], inMs: number): Promise<Lease[]> {
    if (leases.length === 0) return [];
    const sorted = [...leases].sort(byBucket);
    const [owners, untils] = [sorted.map(({ owner }) => owner), sorted.map(({ until }) => until)];
    const { rows } = await this.connection().run(
      this.sql.end.bind(...leaseArrays(sorted), textArray(owners), textArray(untils), inMs),
    );
    return rows.map(readLease).sort(byBucket);
  }

  async expire(): Promise<(Lease & { owner: string })[]> {
    const { rows } = await this.connection().run(this.sql.expire.bind());
    return rows.map((row) => ({ ...readLease(row), owner: row[3] as string })).sort(byBucket);
  }
}

/** Three parameters: transports, buckets, epochs. */
export function leaseArrays(leases: readonly Lease[]): [string, string, string] {
  const sorted = [...leases].sort(byBucket);
  return [
    plainArray(sorted.map((lease) => lease.transport)),
    plainArray(sorted.map((lease) => lease.bucket)),
    plainArray(sorted.map((lease) => lease.epoch)),
  ];
}
function readLease(row: readonly unknown[]): Lease {
  return { transport: Number(row[0]), bucket: Number(row[1]), epoch: row[2] as string };
}
export function readInstances(rows: readonly (readonly unknown[])[]): Beat['instances'] {
  return rows.map((row) => ({
    owner: row[0] as string,
    transports: (row[1] as string).slice(1, -1).split(',').filter(Boolean).map(Number),
    info: row[2] as string,
    until: Number(row[4]),
  }));
}
function readBeat({ rows }: { readonly rows: readonly (readonly unknown[])[] }): Beat {
  return { instances: readInstances(rows), now: Number(rows[0]?.[3]), pauses: parsePauses(rows[0]?.[5]) };
}
const byBucket = (a: Lease, b: Lease): number => a.transport - b.transport || a.bucket - b.bucket;

function leaseStatements(
  names: TableNames,
): Record<'acquire' | 'renew' | 'renewFree' | 'giveBack' | 'expire', Statement> {
  const { leases, instances } = names;
  return {
    // `skip locked`: a lease whose old owner is in the middle of a fenced write is taken at the next try.
    acquire: statement(
      'outbox_acquire',
      `with free as materialized (select l.transport, l.bucket, l.owner from ${leases} l where l.transport = ?
         and (?::smallint[] is null or l.bucket = any(?::smallint[])) and l.expires_at <= clock_timestamp()
         order by l.bucket limit ? for update skip locked),
       taken as (update ${leases} l set crashes = l.crashes + (l.owner is not null and l.owner <> ?)::int, owner = ?, epoch = l.epoch + 1,
         expires_at = ${INTERVAL} from free where ${same('free')} returning l.transport, l.bucket, l.epoch, l.crashes, l.trial)
       select t.transport, t.bucket, t.epoch, t.crashes, t.trial, f.owner
       from taken t join free f on f.transport = t.transport and f.bucket = t.bucket`,
    ),
    // Compared once more when all are locked: one may have run out meanwhile, and whoever waited for that was told so.
    renew: renew(leases, ''),
    renewFree: renew(leases, 'skip locked'),
    giveBack: statement(
      'outbox_give_back',
      `${given(leases)} update ${leases} l set owner = null, expires_at = '-infinity', trial = null from mine where ${same('mine')}`,
    ),
    expire: statement(
      'outbox_expire',
      `with gone as materialized (select l.transport, l.bucket, l.epoch, l.owner from ${leases} l
         where l.owner is not null and l.expires_at <= clock_timestamp() order by l.transport, l.bucket for update skip locked),
       freed as (update ${leases} l set owner = null, expires_at = '-infinity', crashes = l.crashes + 1
         from gone where ${same('gone')} returning l.transport, l.bucket),
       dead as (delete from ${instances} where expires_at <= clock_timestamp())
       select g.transport, g.bucket, g.epoch, g.owner from gone g join freed f on f.transport = g.transport and f.bucket = g.bucket`,
    ),
  };
}

/** Who holds what, and an end of what nobody living holds. */
function heldStatements({ leases }: TableNames): Record<'all' | 'end', Statement> {
  return {
    all: statement(
      'outbox_held_leases',
      `select l.transport, l.bucket, l.epoch, l.owner, extract(epoch from l.expires_at)::text,
         extract(epoch from l.expires_at) - extract(epoch from clock_timestamp())
       from ${leases} l where l.owner is not null and l.expires_at > clock_timestamp() order by l.transport, l.bucket`,
    ),
    // The owner stays: whoever takes it learns that it ran out in these hands.
    end: statement(
      'outbox_end_leases',
      `with named as materialized (select x.transport, x.bucket from unnest(?::smallint[], ?::smallint[], ?::bigint[], ?::text[], ?::text[]) k(t, b, e, o, u)
         cross join lateral (select l.transport, l.bucket from ${leases} l where l.transport = k.t and l.bucket = k.b and l.epoch = k.e
           and l.owner = k.o and extract(epoch from l.expires_at)::text = k.u for update skip locked) x)
       update ${leases} l set expires_at = ${INTERVAL} from named where ${same('named')} returning l.transport, l.bucket, l.epoch`,
    ),
  };
}

function renew(leases: string, locked: '' | 'skip locked'): Statement {
  return statement(
    locked === '' ? 'outbox_renew' : 'outbox_renew_free',
    `with mine as materialized (select l.transport, l.bucket from ${leases} l where l.owner = ? and l.expires_at > clock_timestamp()
       order by l.transport, l.bucket for update ${locked})
     update ${leases} l set expires_at = ${INTERVAL} from mine where ${same('mine')} and l.expires_at > clock_timestamp()
     returning l.transport, l.bucket, l.epoch`,
  );
}

/**
 * Rows that were locked are changed by their key: of one that somebody changed just before, the newest version. By the place
 * that it had when the statement began, it would not be found.
 */
const same = (locked: string): string => `l.transport = ${locked}.transport and l.bucket = ${locked}.bucket`;

/** What a crash leaves: the lease's row says who was on trial. */
function trialStatements({ leases }: TableNames): Record<'noteTrial' | 'lasted', Statement> {
  return {
    noteTrial: statement(
      'outbox_note_trial',
      `with mine as materialized (select l.transport, l.bucket from ${leases} l where l.transport = ? and l.owner = ?
         and (l.bucket = ? and l.epoch = ? and l.expires_at > clock_timestamp() or l.bucket <> ? and l.trial is not null) order by l.bucket for update)
       update ${leases} l set trial = case when l.bucket = ? then ?::uuid end from mine where ${same('mine')} returning l.bucket`,
    ),
    lasted: statement(
      'outbox_lasted',
      `${given(leases)} update ${leases} l set crashes = 0, trial = null from mine where ${same('mine')}`,
    ),
  };
}

/** Locks, of the leases that three arrays name, those of an owner. */
function given(leases: string): string {
  return `with mine as materialized (select x.transport, x.bucket from unnest(?::smallint[], ?::smallint[], ?::bigint[]) k(t, b, e)
     cross join lateral (select l.transport, l.bucket from ${leases} l
       where l.transport = k.t and l.bucket = k.b and l.epoch = k.e and l.owner = ? for update) x)`;
}

function instanceStatements(names: TableNames): Record<'beat' | 'living' | 'leave', Statement> {
  const { instances } = names;
  const pauses = pausesJson(names);
  const living = `select ${INSTANCE}, ${pauses} from ${instances} i where i.expires_at > clock_timestamp()`;
  const beat = `with me as (insert into ${instances} as i (owner, transports, info, expires_at) values (?, ?, ?, ${INTERVAL})
         on conflict (owner) do update set transports = excluded.transports, info = excluded.info, expires_at = excluded.expires_at
         returning i.owner, i.transports, i.info, i.expires_at)
       select me.owner, me.transports, me.info, ${MILLISECONDS}, ${UNTIL}, ${pauses} from me union all
       ${living} and i.owner <> ?`;
  return {
    beat: statement('outbox_beat', beat),
    living: statement('outbox_living', living),
    leave: statement('outbox_leave', `delete from ${instances} where owner = ?`),
  };
}
