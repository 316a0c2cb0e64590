import type { Change } from '../../admin-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { plainArray, textArray } from '../arrays.js';
import { BLOCKED, DEAD, WAITING } from '../../parked-state.js';
import { beingSent } from '../parked/settle.js';

/** Whether a row that is tried again holds later ones back. */
const BLOCKS = { key: '(o.key is not null)', strict: '(o.key is not null)', none: 'false', global: 'true' } as const;
const RETURNED = 'o.id, o.transport, o.bucket, o.key, o.blocking';

export type AdminStatements = ReturnType<typeof adminStatements>;

/** Run now and then, with filters of any shape: planned anew each time, from what is in the tables then. */
export function adminStatements(names: TableNames, settings: StoreSettings) {
  const each = <T>(build: (change: Change) => T): Record<Change, T> => ({
    requeue: build('requeue'),
    discard: build('discard'),
    cancel: build('cancel'),
  });
  return {
    lock: statement(
      undefined,
      `select l.transport from ${names.leases} l where (l.transport, l.bucket) in
         (select * from unnest(?::smallint[], ?::smallint[])) order by l.transport, l.bucket for share`,
    ),
    change: each((change) => changeRows(names, change, settings)),
    wakeNext: wakeNext(names, settings),
    keyArrays: (rows: readonly (readonly unknown[])[]): [string, string, string] => [
      plainArray(rows.map((row) => row[1] as string)),
      plainArray(rows.map((row) => row[2] as string)),
      textArray(rows.map((row) => row[3] as string)),
    ],
    ...keyStatements(names, settings),
    ...holdStatements(names, settings),
  };
}

function holdStatements({ parked, leases }: TableNames, { coordination }: StoreSettings) {
  const byId = `from ${parked} o where o.parked_id = ?::bigint`;
  return {
    lockLease: statement(
      undefined,
      `select l.transport from ${leases} l where (l.transport, l.bucket) in (select o.transport, o.bucket ${byId}) for share`,
    ),
    lockRow: statement(
      undefined,
      `select o.parked_id ${byId} for update${coordination === 'rowLock' ? ' skip locked' : ''}`,
    ),
    isSent: statement(undefined, `select ${beingSent(leases)} ${byId}`),
  };
}

function changeRows(
  { parked, leases }: TableNames,
  change: Change,
  { ordering, coordination }: StoreSettings,
): Statement {
  const blocks = BLOCKS[ordering];
  // With row locks one that is being published is locked for as long as that takes: it is too late, and nobody waits.
  const meant = 'o.parked_id = any(?::bigint[])';
  const free = `o.ctid = any(array(select o.ctid from ${parked} o where ${meant} for update skip locked))`;
  const where = `where ${coordination === 'rowLock' ? free : meant} and o.state = any(?::smallint[]) and not ${beingSent(leases)}`;
  return statement(
    undefined,
    change === 'requeue'
      ? `update ${parked} o set state = ${WAITING}, due_at = now(), attempts = 0, blocking = ${blocks},
           sending_epoch = null, died_at = null, announced = false ${where} returning ${RETURNED}`
      : `delete from ${parked} o ${where} returning ${RETURNED}`,
  );
}

/** The next row of each key, in a global order the first of all, if it was only waiting for the ones before it. */
function wakeNext({ parked, leases }: TableNames, { ordering }: StoreSettings): Statement {
  const ofKey = ordering === 'global' ? '' : 'and o.key = k.key';
  return statement(
    undefined,
    `update ${parked} set due_at = now() where ctid = any(array(select x.ctid
       from (select distinct * from unnest(?::smallint[], ?::smallint[], ?::text[]) k(t, b, key)) k
       cross join lateral (select o.ctid, o.state, ${beingSent(leases)} as sending from ${parked} o
         where o.transport = k.t and o.bucket = k.b ${ofKey} and o.blocking order by o.seq, o.parked_id limit 1) x
       where x.state = ${BLOCKED} and not x.sending))`,
  );
}

/** The same formula as in `enqueue/bucket-of.ts`. */
export function bucketOf({ buckets, ordering }: StoreSettings): string {
  if (ordering === 'global') return '0';
  return `(select ((get_byte(h, 0) << 8) | get_byte(h, 1)) % ${buckets} from sha256(convert_to(?::text, 'UTF8')) h)`;
}

function keyStatements(names: TableNames, settings: StoreSettings) {
  const { parked, leases } = names;
  const global = settings.ordering === 'global';
  const transports = `(?::smallint is null or o.transport = ?)`;
  // Without a key to hash in it, the parameter must still stand somewhere.
  const inBucket = global ? `o.bucket = 0 and ?::text is not null` : `o.bucket = ${bucketOf(settings)}`;
  const ofKey = `${transports} and ${inBucket} and o.key = ? and o.blocking`;
  // In a global order the first row of all, which may be another key's: its backoff is not this key's.
  const first = global ? `${transports} and ${inBucket} and o.blocking` : ofKey;
  const mayGo = global
    ? `(x.state = ${BLOCKED} or x.state = ${WAITING} and x.key = ?)`
    : `x.state in (${WAITING}, ${BLOCKED})`;
  return {
    lockKey: statement(
      undefined,
      `select o.transport from ${leases} o where ${transports} and ${inBucket} order by o.transport, o.bucket for share`,
    ),
    unblockDead: statement(undefined, `update ${parked} o set blocking = false where ${ofKey} and o.state = ${DEAD}`),
    wakeKey: statement(
      undefined,
      `update ${parked} set due_at = now() where ctid = any(array(select x.ctid from ${names.transports} t
         cross join lateral (select o.ctid, o.state, o.key, ${beingSent(leases)} as sending from ${parked} o
           where o.transport = t.id and ${first} order by o.seq, o.parked_id limit 1) x
         where ${mayGo} and not x.sending))`,
    ),
  };
}
