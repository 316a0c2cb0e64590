import { ERROR_LENGTH, type FailureRequest, type InspectStore } from '../../inspect-store.js';
import type { TableNames } from '../../names.js';
import { sameTexts } from '../../sql/filter.js';
import { readFailure } from '../../sql/rows.js';
import { POSTGRES } from '../dialect.js';
import type { Place } from '../../sql/lookup.js';
import { select, type Select } from '../../sql/timed-selects.js';
import { placeArrays } from './lookup.js';
import { DEAD, WAITING } from '../../parked-state.js';
import { utc } from './rows.js';

const COLUMNS =
  'o.transport, o.state, o.type, o.topic, o.last_error, o.id, coalesce(o.attempted_at, o.died_at, o.parked_at) as failed_at';

/** Rows that are looked at in each bucket at least. */
const LEAST_LOOK = 50;

/** Of the dead those that died last, of what waits for an attempt what each bucket has due first: as their indexes have them. */
export function failuresSql({ parked }: TableNames, request: FailureRequest, places: readonly Place[]): Select {
  const { transport = null, states, look } = request;
  const { conditions, values } = sameTexts(POSTGRES, request);
  const dead = `select ${COLUMNS}, false as cut from ${parked} o where o.died_at is not null and o.state = ${DEAD}
    and (?::smallint is null or o.transport = ?) order by o.died_at desc limit ?`;
  const waiting = `select s.* from unnest(?::smallint[], ?::smallint[]) p(t, b) cross join lateral
    (select r.*, pg_catalog.row_number() over () = ? as cut from (select ${COLUMNS} from ${parked} o
      where o.transport = p.t and o.bucket = p.b and o.due_at is not null order by o.due_at, o.seq limit ?) r) s`;
  const ofBucket = Math.max(LEAST_LOOK, Math.ceil(look / Math.max(1, places.length)));
  const parts = [
    ...(states.includes('dead') ? [{ text: dead, values: [transport, transport, look] as unknown[] }] : []),
    ...(states.includes('waiting')
      ? [{ text: waiting, values: [...placeArrays(places), ofBucket, ofBucket] as unknown[] }]
      : []),
  ];
  return select(
    `with looked as materialized (${parts.map((part) => `(${part.text})`).join(' union all ')})
     select (select count(*) from looked l where l.state in (${WAITING}, ${DEAD})),
       (select count(*) from looked l where l.state = ${DEAD}), exists (select from looked l where l.cut),
       g.transport, g.state, g.type, g.topic, g.error, g.count, ${utc('g.first')}, ${utc('g.last')}, g.example
     from (select o.transport, o.state, o.type, o.topic, coalesce(substring(o.last_error from 1 for ${ERROR_LENGTH}), '') as error, count(*) as count,
         min(o.failed_at) as first, max(o.failed_at) as last, (array_agg(o.id order by o.failed_at desc))[1] as example
       from looked o where ${[`o.state in (${WAITING}, ${DEAD})`, ...conditions].join(' and ')} group by 1, 2, 3, 4, 5) g right join (select 1) one on true`,
    ...parts.flatMap((part) => part.values),
    ...values,
  );
}

export function readFailures(
  rows: readonly (readonly unknown[])[],
  { look }: FailureRequest,
): Awaited<ReturnType<InspectStore['failures']>> {
  const [all, dead, isCut] = rows[0] ?? [];
  const groups = rows.filter(([, , , transport]) => transport !== null);
  return {
    rows: groups.map((row) => readFailure(POSTGRES, row.slice(3))),
    looked: Number(all),
    cut: Number(dead) >= look || isCut === 't',
  };
}
