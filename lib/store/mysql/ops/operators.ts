import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { DEAD, WAITING } from '../../parked-state.js';
import { statement, type Sql, type Statement } from '../../sql.js';
import type { OperatorSql } from '../../sql/operators.js';
import type { Removal, RowSql } from '../../sql/row-changes.js';
import type { Rows } from '../../sql/timed-selects.js';
import { shareOf, updateOf } from '../capabilities.js';
import { ARCHIVE_ORDER } from '../inspect/rows.js';
import { jsonRows, jsonTable, lookUp, PARKED_IDS, type JsonCell } from '../json-rows.js';
import { PAUSE_COLUMNS } from '../pauses/pauses.js';

const OF_KEYS = 'if(p.`key` is null, 0, 1)';

/** Whether a row that is tried again holds later ones back. */
const BLOCKS = { key: OF_KEYS, strict: OF_KEYS, none: '0', global: '1' } as const;
const ARCHIVED = jsonTable({ t: 'datetime(6)', a: 'bigint unsigned' });
const archivedRows = (places: Rows): string =>
  jsonRows(places.map(([time, id]) => [time as string, BigInt(id as string)]));

export function operatorSql(names: TableNames, settings: StoreSettings): OperatorSql {
  const { archive, audit, parked, pauses, transports } = names;
  const isFit = `(${fits(LIMITED_COLUMNS, 'p.')}) is not false`;
  const content = ['p.topic', 'p.`key`', 'p.type', 'p.content_type', 'p.headers', 'p.options', 'sha2(p.payload, 256)'];
  const fitting = content.map((column) => `case when ${isFit} then ${column} end`).join(', ');
  const clean = statement(
    'clean actions',
    `delete from ${audit} where begun_at < utc_timestamp(6) - interval ? microsecond order by begun_at limit ?`,
  );
  return {
    ...rowSql(names, settings),
    version: statement(
      'version',
      `select p.id, p.transport, p.state, p.version, p.attempts, ${fitting} from ${parked} p where p.parked_id = ?`,
    ),
    // Nothing but a row that is there already can be wrong with it: its texts were checked.
    pause: statement(
      'pause',
      `insert ignore into ${pauses} (transport, topic, \`key\`, actor, reason) values (?, ?, ?, ?, ?)`,
    ),
    resume: statement('resume', `delete from ${pauses} where transport = ? and topic = ? and \`key\` = ?`),
    pauses: statement(
      'pauses',
      `select ${PAUSE_COLUMNS}, convert(t.name using utf8mb4) from ${pauses} p left join ${transports} t on t.id = p.transport
      order by p.since, p.transport, p.topic, p.\`key\``,
    ),
    archiveShape: ARCHIVE_ORDER.map(({ part }) => part),
    content: (places) => ({
      text: `select o.id, o.transport, o.topic, o.\`key\`, o.type, o.version, o.content_type, o.headers, o.options, o.payload
        from ${lookUp(ARCHIVED, `${archive} o`)} on o.archive_id = k.a and o.published_at = k.t`,
      values: [archivedRows(places)],
    }),
    cleanAudit: (age, limit) => clean.bind(age * 1_000, limit),
  };
}

function rowSql({ leases, parked, ready, archive }: TableNames, { ordering, coordination }: StoreSettings): RowSql {
  const byId = `${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`;
  const list = (statement: Statement, cells: readonly (readonly JsonCell[])[]): Sql => statement.bind(jsonRows(cells));
  const ids = (rowIds: readonly string[]): JsonCell[][] => rowIds.map((id) => [BigInt(id)]);
  const lockLeases = statement(
    'lock leases',
    `select l.transport, l.bucket, l.epoch, l.expires_at > utc_timestamp(6), l.owner is not null
      from ${lookUp(jsonTable({ t: 'smallint', b: 'smallint' }), `${leases} l`)} on l.transport = k.t and l.bucket = k.b
      ${shareOf('l')}`,
  );
  const lockParked = statement(
    'lock rows',
    `select p.parked_id, p.id, p.transport, p.bucket, p.\`key\`, p.state, p.blocking, p.sending_epoch
      from ${byId} ${updateOf('p')}${coordination === 'rowLock' ? ' skip locked' : ''}`, // held while it is published
  );
  const requeue = statement(
    'requeue',
    `update ${byId} set p.state = ${WAITING}, p.attempts = 0, p.due_at = utc_timestamp(6),
      p.blocking = ${BLOCKS[ordering]}, p.sending_epoch = null, p.died_at = null, p.announced = 0`,
  );
  const removeParked = statement('remove parked', `delete p from ${byId}`);
  return {
    lockLeases: (places) => list(lockLeases, places),
    lockParked: (rowIds) => list(lockParked, ids(rowIds)),
    requeue: (rowIds) => list(requeue, ids(rowIds)),
    removeParked: (rowIds) => list(removeParked, ids(rowIds)),
    unblock: statement(
      'unblock',
      `update ${parked} force index (by_key) set blocking = 0
      where transport = ? and bucket = ? and blocking = 1 and \`key\` = ? and state = ${DEAD}`,
    ),
    ready: removeReady(ready),
    archived: removeArchived(archive),
  };
}

/** Rows that somebody publishes under a lock of its own are passed over. */
function removeReady(ready: string): Removal {
  const places = jsonTable({ t: 'smallint', b: 'smallint', s: 'bigint unsigned' });
  const meant = `${lookUp(places, `${ready} r`)} on r.transport = k.t and r.bucket = k.b and r.seq = k.s`;
  const lock = statement(
    'lock ready',
    `select r.transport, r.bucket, r.seq, r.id from ${meant} ${updateOf('r')} skip locked`,
  );
  const remove = statement('remove ready', `delete r from ${meant}`);
  const list = (rows: Rows): string =>
    jsonRows(rows.map(([transport, bucket, seq]) => [Number(transport), Number(bucket), BigInt(seq as string)]));
  return { lock: (rows) => lock.bind(list(rows)), remove: (rows) => remove.bind(list(rows)) };
}

/** Past what the cleaner deletes just now. With its time: in an archive in partitions a number alone may be that of another row. */
export function removeArchived(archive: string): Removal {
  const meant = `${lookUp(ARCHIVED, `${archive} a`)} on a.archive_id = k.a and a.published_at = k.t`;
  const lock = statement(
    'lock archived',
    `select a.published_at, a.archive_id from ${meant} ${updateOf('a')} skip locked`,
  );
  const remove = statement('purge', `delete a from ${meant}`);
  return { lock: (rows) => lock.bind(archivedRows(rows)), remove: (rows) => remove.bind(archivedRows(rows)) };
}
