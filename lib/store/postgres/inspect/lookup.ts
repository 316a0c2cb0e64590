import { fits, LIMITED_COLUMNS, ROW_LIMITS } from '../../limits.js';
import type { TableNames } from '../../names.js';
import type { LookupSql, Place } from '../../sql/lookup.js';
import { select, type Select } from '../../sql/timed-selects.js';
import { plainArray } from '../arrays.js';
import { ROW_COLUMNS } from './rows.js';

export const PLACES = 'unnest(?::smallint[], ?::smallint[]) p(t, b)';
export const placeArrays = (places: readonly Place[]): [string, string] => [
  plainArray(places.map(([transport]) => transport)),
  plainArray(places.map(([, bucket]) => bucket)),
];

const TIME = `case when isfinite(x.created_at) then (extract(epoch from x.created_at) operator(pg_catalog.*) 1000)::bigint else 0 end`;
/** What nobody may write any more, but may be there from before the limits, is left where it is. */
const small = (column: 'headers' | 'options'): string =>
  `case when octet_length(o.${column}) <= ${ROW_LIMITS[column]} then o.${column} end`;
const FITS = `(${fits(LIMITED_COLUMNS, 'o.')}) is not false`;
const PREVIEW = 'substring(o.payload from 1 for ?::int)';
const content = (errors: string, isParked = false): string =>
  `select ${small('headers')}, ${small('options')}, ${errors}, octet_length(o.payload), ${
    isParked
      ? `case when ${FITS} then ${PREVIEW} end, case when ${FITS} then encode(sha256(o.payload), 'hex') end, ${FITS}`
      : `${PREVIEW}, null, true`
  }`;

export function lookupSql(names: TableNames): LookupSql {
  const { ready, archive, transports } = names;
  const edge = (more: string, direction: '' | ' desc'): string =>
    `select x.seq, ${TIME} from ${PLACES} cross join lateral (select o.seq, o.created_at from ${ready} o
       where o.transport = p.t and o.bucket = p.b${more} order by o.seq${direction} limit 1) x order by x.seq${direction} limit 1`;
  return {
    transports: select(`select id from ${transports} order by id`),
    isByPlace: true,
    all: (table, ids) => ({
      ...select(`select ${ROW_COLUMNS[table]} from ${names[table]} o where o.id = any(?::uuid[])`, plainArray(ids)),
      plan: table === 'parked' ? 'in order' : 'any plan',
    }),
    readyIn: (of, bucket, ids) => ({
      text: `select ${ROW_COLUMNS.ready} from ${ready} o
        where o.transport = any(?::smallint[]) and o.bucket = ?::smallint and o.id = any(?::uuid[])`,
      values: [plainArray(of), bucket, plainArray(ids)],
      plan: 'by index',
    }),
    readyNear: (places, ids, from, to) =>
      select(
        `select ${ROW_COLUMNS.ready} from ${ready} o where o.ctid = any(array(select x.place from ${PLACES}
           cross join lateral (select o.ctid place from ${ready} o
             where o.transport = p.t and o.bucket = p.b and o.id = any(?::uuid[]) and o.seq >= ?::bigint and o.seq <= ?::bigint) x))`,
        ...placeArrays(places),
        plainArray(ids),
        from,
        to,
      ),
    firstReady: (places, from) => select(edge(' and o.seq >= ?::bigint', ''), ...placeArrays(places), from),
    lastReady: (places) => select(edge('', ' desc'), ...placeArrays(places)),
    archivedBetween: (from, to, ids) => ({
      text: `select ${ROW_COLUMNS.archive} from ${archive} o
        where o.published_at >= ?::timestamptz and o.published_at <= ?::timestamptz and o.id = any(?::uuid[])`,
      values: [from?.toISOString() ?? '-infinity', to?.toISOString() ?? 'infinity', plainArray(ids)],
      plan: to === null ? 'any plan' : 'in order',
    }),
    content: contentSql(names),
  };
}

function contentSql({ ready, parked, archive }: TableNames): LookupSql['content'] {
  return ({ state, transport, bucket, seq, id, publishedAt }, preview): Select => {
    const place = `o.transport = ?::smallint and o.bucket = ?::smallint and o.seq = ?::bigint and o.id = ?::uuid`;
    const at = [transport, bucket, seq, id];
    if (state === 'ready') return select(`${content('null')} from ${ready} o where ${place}`, preview, ...at);
    if (state !== 'published')
      return select(`${content('o.errors', true)} from ${parked} o where ${place}`, preview, ...at);
    const from = publishedAt?.getTime() ?? 0;
    const between = [new Date(from).toISOString(), new Date(from + 1).toISOString()];
    return select(
      `${content('null')} from ${archive} o where o.published_at >= ?::timestamptz and o.published_at <= ?::timestamptz and ${place}`,
      preview,
      ...between,
      ...at,
    );
  };
}
