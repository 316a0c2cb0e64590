import type { TableNames } from '../../names.js';
import type { AuditSql } from '../../sql/audit.js';
import { utc } from '../inspect/rows.js';
import { statement } from '../statement.js';

export function auditSql({ audit }: TableNames): AuditSql {
  const columns = `audit_id, action, actor, filter, ${utc('begun_at')}, ${utc('touched_at')}, ${utc('ended_at')}, done, skipped, outcome, error`;
  const clean = statement(
    undefined,
    `delete from ${audit} where ctid = any(array(select o.ctid from ${audit} o
       where o.begun_at < now() - ?::float8 * interval '1 ms' order by o.begun_at limit ? for update skip locked))`,
  );
  return {
    begin: statement(undefined, `insert into ${audit} (action, actor, filter) values (?, ?, ?) returning audit_id`),
    count: statement(
      undefined,
      `update ${audit} set done = done + ?::bigint, skipped = skipped + ?::bigint, touched_at = clock_timestamp()
       where audit_id = ?::bigint and ended_at is null`,
    ),
    end: statement(
      undefined,
      `update ${audit} set outcome = ?, error = ?, ended_at = clock_timestamp(), touched_at = clock_timestamp()
       where audit_id = ?::bigint and ended_at is null`,
    ),
    list: statement(undefined, `select ${columns} from ${audit} order by audit_id desc limit ?`),
    listBefore: statement(
      undefined,
      `select ${columns} from ${audit} where audit_id < ?::bigint order by audit_id desc limit ?`,
    ),
    clean: (age, limit) => clean.bind(age, limit),
  };
}
