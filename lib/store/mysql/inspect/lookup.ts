import { fits, LIMITED_COLUMNS, ROW_LIMITS } from '../../limits.js';
import type { TableNames } from '../../names.js';
import type { LookupSql } from '../../sql/lookup.js';
import { select } from '../../sql/timed-selects.js';
import { MYSQL } from '../dialect.js';
import { marks } from '../statements.js';
import { ROW_COLUMNS } from './rows.js';

/** What is longer than anybody may write is left where it is. */
const small = (column: 'headers' | 'options'): string =>
  `if(octet_length(${column}) > ${ROW_LIMITS[column]}, null, ${column})`;
const FITS = `(${fits(LIMITED_COLUMNS, 'p.')}) is not false`;
const PARKED = `case when ${FITS} then substring(payload, 1, ?) end, case when ${FITS} then sha2(payload, 256) end, ${FITS}`;
const TIME = `timestampdiff(microsecond, '1970-01-01 00:00:00', created_at) div 1000`;

export function lookupSql(names: TableNames): LookupSql {
  const { ready, archive, transports } = names;
  const bySeq = `${ready} force index (by_seq)`;
  return {
    transports: select(`select id from ${transports} order by id`),
    isByPlace: false,
    all: (table, ids) => {
      const index = table === 'parked' ? ' force index (by_id)' : '';
      return select(
        `select ${ROW_COLUMNS[table]} from ${names[table]}${index} where id in (${marks(ids.length)})`,
        ...ids,
      );
    },
    readyIn: (of, bucket, ids) =>
      select(
        `select ${ROW_COLUMNS.ready} from ${ready} force index (primary)
        where transport in (${of.join(', ')}) and bucket = ? and id in (${marks(ids.length)})`,
        bucket,
        ...ids,
      ),
    readyNear: (_places, ids, from, to) =>
      select(
        `select ${ROW_COLUMNS.ready} from ${bySeq} where seq >= ? and seq <= ? and id in (${marks(ids.length)})`,
        BigInt(from),
        BigInt(to),
        ...ids,
      ),
    firstReady: (_places, from) =>
      select(`select seq, ${TIME} from ${bySeq} where seq >= ? order by seq limit 1`, BigInt(from)),
    lastReady: () => select(`select seq, ${TIME} from ${bySeq} order by seq desc limit 1`),
    archivedBetween: archivedSql(archive),
    content: contentSql(names),
  };
}

function contentSql({ ready, parked, archive }: TableNames): LookupSql['content'] {
  return ({ state, transport, bucket, seq, id, rowId }, preview) => {
    const errors = state === 'ready' || state === 'published' ? 'null' : 'errors';
    const payload = state === 'ready' || state === 'published' ? 'substring(payload, 1, ?), null, true' : PARKED;
    const columns = `select ${small('headers')}, ${small('options')}, ${errors}, octet_length(payload), ${payload}`;
    if (state === 'ready') {
      const place = 'transport = ? and bucket = ? and seq = ? and id = ?';
      const from = `${ready} force index (primary)`;
      return select(`${columns} from ${from} where ${place}`, preview, transport, bucket, BigInt(seq), id);
    }
    const [table, column] = state === 'published' ? [archive, 'archive_id'] : [parked, 'parked_id'];
    const from = `${table} p where ${column} = ? and id = ?`;
    return select(`${columns} from ${from}`, preview, BigInt(rowId ?? '0'), id);
  };
}

function archivedSql(archive: string): LookupSql['archivedBetween'] {
  return (from, to, ids) => {
    const bounds = [from === null ? '' : ' and published_at >= ?', to === null ? '' : ' and published_at <= ?'];
    const times = [from, to].filter((time) => time !== null).map((time) => MYSQL.time(time));
    return select(
      `select ${ROW_COLUMNS.archive} from ${archive}${from === null ? '' : ' force index (by_time)'}
        where id in (${marks(ids.length)})${bounds.join('')}`,
      ...ids,
      ...times,
    );
  };
}
