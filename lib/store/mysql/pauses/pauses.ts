import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { PauseSql } from '../../sql/pauses.js';

/** Six columns, of a table `p`: `readPause` knows the order. Times are milliseconds since the epoch. */
export const PAUSE_COLUMNS =
  "p.transport, convert(p.topic using utf8mb4), convert(p.`key` using utf8mb4), timestampdiff(microsecond, '1970-01-01 00:00:00', p.since) div 1000, p.actor, p.reason";

export function pauseSql({ pauses, transports }: TableNames): PauseSql {
  return {
    // Nothing but a row that is there already can be wrong with it: its texts were checked.
    pause: statement(
      'pause',
      `insert ignore into ${pauses} (transport, topic, \`key\`, actor, reason) values (?, ?, ?, ?, ?)`,
    ),
    resume: statement('resume', `delete from ${pauses} where transport = ? and topic = ? and \`key\` = ?`),
    list: statement(
      'pauses',
      `select ${PAUSE_COLUMNS}, convert(t.name using utf8mb4) from ${pauses} p left join ${transports} t on t.id = p.transport
      order by p.since, p.transport, p.topic, p.\`key\``,
    ),
  };
}
