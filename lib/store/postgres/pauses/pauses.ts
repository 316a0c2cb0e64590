import type { TableNames } from '../../names.js';
import type { PauseSql } from '../../sql/pauses.js';
import { statement } from '../statement.js';

const SINCE = 'extract(epoch from p.since) operator(pg_catalog.*) 1000';

/** Six columns, of a table `p`: `readPause` knows the order. Times are milliseconds since the epoch. */
export const PAUSE_COLUMNS = `p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason`;

export function pauseSql({ pauses, transports }: TableNames): PauseSql {
  return {
    pause: statement(
      undefined,
      `insert into ${pauses} (transport, topic, key, actor, reason) values (?, ?, ?, ?, ?) on conflict do nothing`,
    ),
    resume: statement(undefined, `delete from ${pauses} where transport = ? and topic = ? and key = ?`),
    list: statement(
      undefined,
      `select ${PAUSE_COLUMNS}, t.name from ${pauses} p left join ${transports} t on t.id = p.transport
         order by p.since, p.transport, p.topic, p.key`,
    ),
  };
}
