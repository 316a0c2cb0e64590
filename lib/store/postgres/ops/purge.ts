import type { TableNames } from '../../names.js';
import type { PurgeSql } from '../../sql/purge.js';
import { plainArray, textArray } from '../arrays.js';
import { ARCHIVE_ORDER } from '../inspect/rows.js';
import { statement } from '../statement.js';

export function purgeSql({ archive, audit }: TableNames): PurgeSql {
  /**
   * Past what the cleaner deletes just now. Row by row by the key, however the tables are planned. Each partition has places
   * of its own: the same one in another partition is of another row.
   */
  const remove = statement(
    undefined,
    `with meant as materialized (select x.part, x.place
       from unnest(?::timestamptz[], ?::smallint[], ?::smallint[], ?::bigint[]) k(at, t, b, s)
       cross join lateral (select o.tableoid as part, o.ctid as place from ${archive} o where o.published_at = k.at
         and o.transport = k.t and o.bucket = k.b and o.seq = k.s for update skip locked) x)
     delete from ${archive} where ctid = any(array(select place from meant)) and (tableoid, ctid) in (select part, place from meant)`,
  );
  const forget = statement(
    undefined,
    `update ${audit} set kept = null, kept_payload = null where audit_id = any(?::bigint[]) and kept is not null`,
  );
  return {
    archive: { from: `${archive} o`, columns: [], order: ARCHIVE_ORDER },
    lock: undefined,
    remove: (rows) => {
      const [times, ...numbers] = ARCHIVE_ORDER.map((_, n) => rows.map((row) => row[n] as string));
      return remove.bind(textArray(times as string[]), ...numbers.map(plainArray));
    },
    forget: (edits) => forget.bind(plainArray(edits)),
  };
}
