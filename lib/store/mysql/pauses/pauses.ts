/** Six columns, of a table `p`: `readPause` knows the order. Times are milliseconds since the epoch. */
export const PAUSE_COLUMNS =
  "p.transport, convert(p.topic using utf8mb4), convert(p.`key` using utf8mb4), timestampdiff(microsecond, '1970-01-01 00:00:00', p.since) div 1000, p.actor, p.reason";
