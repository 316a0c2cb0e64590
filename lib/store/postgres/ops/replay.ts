import type { TableNames } from '../../names.js';
import type { ReplaySql } from '../../sql/replay.js';
import { plainArray } from '../arrays.js';
import { ARCHIVE_ORDER, readRow, ROW_COLUMNS } from '../inspect/rows.js';
import { statement } from '../statement.js';

export function replaySql({ archive, parked, audit }: TableNames): ReplaySql {
  const open = `touched_at = clock_timestamp() where audit_id = ?::bigint and filter = ?`;
  const among = statement(undefined, `select o.id, o.transport from ${parked} o where o.id = any(?::uuid[])`);
  return {
    archive: { from: `${archive} o`, columns: [ROW_COLUMNS.archive], order: ARCHIVE_ORDER },
    readRow,
    content: (places) => ({
      rest: `o.id, o.transport, o.topic, o.key, o.type, o.version, o.content_type, o.headers, o.options, o.payload
        from unnest(?::timestamptz[], ?::smallint[], ?::smallint[], ?::bigint[]) with ordinality k(p, t, b, s, n)
        cross join lateral (select * from ${archive} a
          where a.published_at = k.p and a.transport = k.t and a.bucket = k.b and a.seq = k.s offset 0) o order by k.n`,
      values: ARCHIVE_ORDER.map((_, n) => plainArray(places.map((place) => place[n] as string))),
    }),
    parkedAmong: (ids) => among.bind(plainArray(ids)),
    step: statement(
      undefined,
      `update ${audit} set done = done + ?::bigint, skipped = skipped + ?::bigint, filter = ?, ${open} and ended_at is null`,
    ),
    resume: statement(
      undefined,
      `update ${audit} set filter = ?, outcome = null, error = null, ended_at = null, ${open}
       and action = 'replay' and outcome is distinct from 'done'`,
    ),
    end: statement(
      undefined,
      `update ${audit} set outcome = ?, error = ?, ended_at = clock_timestamp(), ${open} and ended_at is null`,
    ),
  };
}
