import type { Bucket, Lease } from '../../lease-store.js';
import type { TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import type { Becomes, InstanceSql, LeaseSql, Others } from '../../sql/leases.js';
import { plainArray, storableText, textArray } from '../arrays.js';
import { PAUSE_COLUMNS } from '../pauses/pauses.js';
import { statement } from '../statement.js';

const NOW = 'clock_timestamp()';
const MILLISECONDS = (time: string): string => `extract(epoch from ${time}) operator(pg_catalog.*) 1000`;
const AFTER = (value: string): string => `${NOW} + ${value} * interval '1 ms'`;
const INSTANCE = `i.owner, i.transports, i.info, ${MILLISECONDS(NOW)}, ${MILLISECONDS('i.expires_at')}`;
const LEASE = `l.transport, l.bucket, l.epoch, l.owner, l.crashes, l.trial, l.expires_at > ${NOW}, extract(epoch from l.expires_at)::text,
  (extract(epoch from l.expires_at) - extract(epoch from ${NOW})) operator(pg_catalog.*) 1000`;

export function leaseSql(names: TableNames): LeaseSql {
  const { leases } = names;
  const these = `unnest(?::smallint[], ?::smallint[]) k(t, b) join ${leases} l on l.transport = k.t and l.bucket = k.b`;
  const lock = (others: '' | Others) =>
    statement(
      undefined,
      `select l.transport, l.bucket from ${these} order by l.transport, l.bucket for update of l ${others}`,
    );
  const locks = { wait: lock(''), 'skip locked': lock('skip locked') };
  const read = statement(undefined, `select ${LEASE} from ${these}`);
  const lockFree = statement(
    undefined,
    `select l.transport, l.bucket from ${leases} l where l.transport = ? and (?::smallint[] is null or l.bucket = any(?::smallint[]))
       and l.expires_at <= ${NOW} order by l.bucket limit ? for update skip locked`,
  );
  return {
    owned: statement(undefined, `select ${LEASE} from ${leases} l where l.owner is not null`),
    ownedBy: statement(undefined, `select ${LEASE} from ${leases} l where l.owner = ?`),
    read: (places) => read.bind(...placeArrays(places)),
    lockFree: (transport, only, limit) => {
      const buckets = only === undefined ? null : plainArray(only);
      return lockFree.bind(transport, buckets, buckets, limit);
    },
    lock: (places, others) => locks[others].bind(...placeArrays(places)),
    write: (columns, all) => {
      const texts = columns.map((column) => all.map((lease) => lease[column] ?? null));
      const arrays = texts.map((values) => textArray(values.map((value) => (value === null ? null : String(value)))));
      return writing(leases, columns).bind(...placeArrays(all), ...arrays);
    },
    ...instanceSql(names),
  };
}

/** Column of a list `k` → its type, and what it sets. */
const WRITES: Readonly<Record<keyof Becomes, readonly [type: string, sets: string]>> = {
  owner: ['text', 'owner = k.owner'],
  epoch: ['bigint', 'epoch = k.epoch'],
  crashes: ['int', 'crashes = k.crashes'],
  trial: ['uuid', 'trial = k.trial'],
  endsIn: ['float8', `expires_at = coalesce(${AFTER('k."endsIn"')}, '-infinity')`],
};
const writing = (leases: string, columns: readonly (keyof Becomes)[]): Statement =>
  statement(
    undefined,
    `update ${leases} l set ${columns.map((column) => WRITES[column][1]).join(', ')}
     from unnest(?::smallint[], ?::smallint[], ${columns.map((column) => `?::${WRITES[column][0]}[]`).join(', ')})
       k(t, b, ${columns.map((column) => `"${column}"`).join(', ')}) where l.transport = k.t and l.bucket = k.b`,
  );

function instanceSql({ instances, pauses }: TableNames): InstanceSql {
  const beat = statement(
    undefined,
    `insert into ${instances} as i (owner, transports, info, expires_at) values (?, ?, ?, ${AFTER('?::float8')})
       on conflict (owner) do update set transports = excluded.transports, info = excluded.info, expires_at = excluded.expires_at`,
  );
  const none = (count: number): string => new Array(count).fill('null').join(', ');
  return {
    beat: ({ owner, transports, info }, ttlMs) => beat.bind(owner, plainArray(transports), storableText(info), ttlMs),
    living: statement(
      undefined,
      `select ${INSTANCE}, ${none(6)} from ${instances} i where i.expires_at > ${NOW}
       union all select ${none(5)}, ${PAUSE_COLUMNS} from ${pauses} p`,
    ),
    all: statement(undefined, `select ${INSTANCE} from ${instances} i order by i.expires_at desc limit ?`),
    leave: statement(undefined, `delete from ${instances} where owner = ?`),
    sweeps: [statement(undefined, `delete from ${instances} where expires_at <= ${NOW}`)],
  };
}

const placeArrays = (places: readonly Bucket[]): [string, string] => [
  plainArray(places.map(({ transport }) => transport)),
  plainArray(places.map(({ bucket }) => bucket)),
];
/** Three parameters: transports, buckets, epochs. */
export function leaseArrays(leases: readonly Lease[]): [string, string, string] {
  const sorted = [...leases].sort((a, b) => a.transport - b.transport || a.bucket - b.bucket);
  return [...placeArrays(sorted), plainArray(sorted.map(({ epoch }) => epoch))];
}
