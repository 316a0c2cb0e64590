import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { TableNames } from '../../names.js';
import type { EditSql } from '../../sql/edit.js';
import { utc } from '../inspect/rows.js';
import { statement } from '../statement.js';

export function editSql({ parked, audit }: TableNames): EditSql {
  const byId = `from ${parked} o where o.parked_id = ?::bigint`;
  const isFit = `(${fits(LIMITED_COLUMNS, 'o.')}) is not false`;
  const text = (column: string): string => `case when ${isFit} then ${column} end`;
  const texts = ['o.topic', 'o.key', 'o.type', 'o.content_type', 'o.headers', 'o.options'].map(text).join(', ');
  const version = `o.parked_id, o.transport, o.state, o.id, o.version, o.attempts, ${isFit}, ${texts}, ${text(`encode(sha256(o.payload), 'hex')`)}`;
  const kept = statement(
    undefined,
    `select audit_id, message_id, actor, ${utc('begun_at')}, filter, kept, octet_length(kept_payload),
       substring(kept_payload from 1 for ?::int)
     from ${audit} where message_id is not null and (?::uuid is null or message_id = ?::uuid)
       and (?::bigint is null or audit_id < ?::bigint) order by audit_id desc limit ?`,
  );
  return {
    places: statement(
      undefined,
      `select o.parked_id, o.transport, o.state from ${parked} o where o.id = ?::uuid order by o.transport, o.seq`,
    ),
    version: statement(undefined, `select ${version} ${byId}`),
    read: statement(undefined, `select ${version}, ${text('o.payload')} ${byId}`),
    keep: statement(
      undefined,
      `insert into ${audit} (action, actor, filter, done, outcome, ended_at, message_id, kept, kept_payload)
       select 'edit', ?, ?, 1, 'done', clock_timestamp(), o.id, ?, o.payload ${byId} returning audit_id`,
    ),
    kept: ({ id = null, before, limit, previewBytes }) => kept.bind(previewBytes, id, id, before, before, limit),
    update: (columns, isDue) => {
      const set = columns.map((column) => `${column} = ?::${column === 'payload' ? 'bytea' : 'text'}`).join(', ');
      return statement(
        undefined,
        `update ${parked} set ${set}${isDue ? ', due_at = now()' : ''} where parked_id = ?::bigint`,
      );
    },
  };
}
