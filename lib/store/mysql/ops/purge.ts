import type { PurgeRow } from '../../edit/purge-store.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { PurgeSql } from '../../sql/purge.js';
import { updateOf } from '../capabilities.js';
import { ARCHIVE_ORDER, archiveByTime } from '../inspect/rows.js';
import { jsonRows, jsonTable, lookUp } from '../json-rows.js';

const places = (rows: readonly PurgeRow[]): string =>
  jsonRows(rows.map(([at, id]) => [at as string, BigInt(id as string)]));

export function purgeSql({ archive, audit }: TableNames): PurgeSql {
  // With its time: in an archive in partitions a number alone may be that of another row.
  const archived = `${lookUp(jsonTable({ t: 'datetime(6)', a: 'bigint unsigned' }), `${archive} a`)}
      on a.archive_id = k.a and a.published_at = k.t`;
  const lock = statement(
    'lock archived',
    `select a.published_at, a.archive_id from ${archived} ${updateOf('a')} skip locked`,
  );
  const remove = statement('purge', `delete a from ${archived}`);
  const forget = statement(
    'forget',
    `update ${lookUp(jsonTable({ a: 'bigint unsigned' }), `${audit} a`)} on a.audit_id = k.a
      set a.kept = null, a.kept_payload = null where a.kept is not null`,
  );
  return {
    archive: { from: archiveByTime(archive), columns: [], order: ARCHIVE_ORDER },
    lock: (rows) => lock.bind(places(rows)), // past what the cleaner deletes just now
    remove: (rows) => remove.bind(places(rows)),
    forget: (edits) => forget.bind(jsonRows(edits.map((id) => [BigInt(id)]))),
  };
}
