import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { ReplaySql } from '../../sql/replay.js';
import { ARCHIVE_ORDER, archiveByTime, readRow, ROW_COLUMNS } from '../inspect/rows.js';
import { jsonRows, jsonTable, lookUp } from '../json-rows.js';
import { marks } from '../statements.js';

const CONTENT =
  'o.id, o.transport, o.topic, o.`key`, o.type, o.version, o.content_type, o.headers, o.options, o.payload';

export function replaySql({ archive, parked, audit }: TableNames): ReplaySql {
  // Bytes: an order of texts may know no difference between two of them.
  const open = 'touched_at = utc_timestamp(6) where audit_id = ? and cast(filter as binary) = cast(? as binary)';
  const places = lookUp(jsonTable({ t: 'datetime(6)', a: 'bigint unsigned' }), `${archive} o`);
  return {
    archive: { from: archiveByTime(archive), columns: [ROW_COLUMNS.archive], order: ARCHIVE_ORDER },
    readRow,
    content: (positions) => ({
      rest: `${CONTENT} from ${places} on o.archive_id = k.a and o.published_at = k.t`,
      values: [jsonRows(positions.map(([time, id]) => [time as string, BigInt(id as string)]))],
    }),
    parkedAmong: (ids) => {
      const text = `select id, transport from ${parked} force index (by_id) where id in (${marks(ids.length)})`;
      return statement(undefined, text).bind(...ids);
    },
    step: statement(
      'step of a replay',
      `update ${audit} set done = done + ?, skipped = skipped + ?, filter = ?, ${open} and ended_at is null`,
    ),
    resume: statement(
      'resume a replay',
      `update ${audit} set filter = ?, outcome = null, error = null, ended_at = null, ${open}
      and action = 'replay' and coalesce(outcome, '') <> 'done'`,
    ),
    end: statement(
      'end a replay',
      `update ${audit} set outcome = ?, error = ?, ended_at = utc_timestamp(6), ${open} and ended_at is null`,
    ),
  };
}
