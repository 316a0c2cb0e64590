import type { TableNames } from '../../names.js';
import { readPause, type Pause } from '../../pauses/pause-store.js';
import type { PauseSql } from '../../sql/pauses.js';
import { statement } from '../statement.js';

const SINCE = 'extract(epoch from p.since) operator(pg_catalog.*) 1000';

/** All pauses as one JSON text; null without one. */
export const pausesJson = ({ pauses }: TableNames): string =>
  `(select json_agg(json_build_array(p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason))::text from ${pauses} p)`;

export const parsePauses = (json: unknown): Pause[] =>
  typeof json === 'string' ? (JSON.parse(json) as unknown[][]).map(readPause) : [];

export function pauseSql({ pauses, transports }: TableNames): PauseSql {
  return {
    pause: statement(
      undefined,
      `insert into ${pauses} (transport, topic, key, actor, reason) values (?, ?, ?, ?, ?) on conflict do nothing`,
    ),
    resume: statement(undefined, `delete from ${pauses} where transport = ? and topic = ? and key = ?`),
    list: statement(
      undefined,
      `select p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason, t.name from ${pauses} p left join ${transports} t on t.id = p.transport
         order by p.since, p.transport, p.topic, p.key`,
    ),
  };
}
