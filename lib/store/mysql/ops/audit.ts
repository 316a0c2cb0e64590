import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { AuditSql } from '../../sql/audit.js';

export function auditSql({ audit }: TableNames): AuditSql {
  const columns = 'audit_id, action, actor, filter, begun_at, touched_at, ended_at, done, skipped, outcome, error';
  const clean = statement(
    'clean actions',
    `delete from ${audit} where begun_at < utc_timestamp(6) - interval ? microsecond order by begun_at limit ?`,
  );
  return {
    begin: statement('begin action', `insert into ${audit} (action, actor, filter) values (?, ?, ?)`),
    count: statement(
      'count action',
      `update ${audit} set done = done + ?, skipped = skipped + ?, touched_at = utc_timestamp(6)
      where audit_id = ? and ended_at is null`,
    ),
    end: statement(
      'end action',
      `update ${audit} set outcome = ?, error = ?, ended_at = utc_timestamp(6), touched_at = utc_timestamp(6)
      where audit_id = ? and ended_at is null`,
    ),
    list: statement('actions', `select ${columns} from ${audit} order by audit_id desc limit ?`),
    listBefore: statement(
      'actions before',
      `select ${columns} from ${audit} where audit_id < ? order by audit_id desc limit ?`,
    ),
    clean: (age, limit) => clean.bind(age * 1_000, limit),
  };
}
