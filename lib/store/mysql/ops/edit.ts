import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { EditSql } from '../../sql/edit.js';

export function editSql({ parked, audit }: TableNames): EditSql {
  const byId = `from ${parked} p where p.parked_id = ?`;
  const isFit = `(${fits(LIMITED_COLUMNS, 'p.')}) is not false`;
  const text = (column: string): string => `case when ${isFit} then ${column} end`;
  const texts = ['p.topic', 'p.`key`', 'p.type', 'p.content_type', 'p.headers', 'p.options'].map(text).join(', ');
  const version = `p.parked_id, p.transport, p.state, p.id, p.version, p.attempts, ${isFit}, ${texts}, ${text('sha2(p.payload, 256)')}`;
  return {
    places: statement(
      'places to edit',
      `select p.parked_id, p.transport, p.state from ${parked} p force index (by_id) where p.id = ? order by p.transport, p.seq, p.parked_id`,
    ),
    version: statement('version', `select ${version} ${byId}`),
    read: statement('read to edit', `select ${version}, ${text('p.payload')} ${byId}`),
    keep: statement(
      'keep',
      `insert into ${audit} (action, actor, filter, done, outcome, ended_at, message_id, kept, kept_payload)
      select 'edit', ?, ?, 1, 'done', utc_timestamp(6), p.id, ?, p.payload ${byId}`,
    ),
    kept: ({ id, before, limit, previewBytes }) => {
      const ofOne = id === undefined ? 'message_id is not null' : 'message_id = ?';
      const isBehind = before === null ? '' : ' and audit_id < ?';
      const values = [...(id === undefined ? [] : [id]), ...(before === null ? [] : [BigInt(before)])];
      return statement(
        'kept',
        `select audit_id, message_id, actor, begun_at, filter, kept, octet_length(kept_payload), substring(kept_payload, 1, ?)
        from ${audit} where ${ofOne}${isBehind} order by audit_id desc limit ?`,
      ).bind(previewBytes, ...values, limit);
    },
    update: (columns, isDue) => {
      const set = columns.map((column) => `${column} = ?`).join(', ');
      return statement(
        'edit',
        `update ${parked} set ${set}${isDue ? ', due_at = utc_timestamp(6)' : ''} where parked_id = ?`,
      );
    },
  };
}
