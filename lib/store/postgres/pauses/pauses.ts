const SINCE = 'extract(epoch from p.since) operator(pg_catalog.*) 1000';

/** Six columns, of a table `p`: `readPause` knows the order. Times are milliseconds since the epoch. */
export const PAUSE_COLUMNS = `p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason`;
