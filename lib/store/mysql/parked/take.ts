import type { TableNames } from '../../names.js';
import { BLOCKED, SCHEDULED, WAITING } from '../../parked-state.js';
import { statement } from '../../sql.js';
import type { ReadSql, TakeSql } from '../../sql/take.js';
import { updateOf } from '../capabilities.js';
import { messageFrom, parkedFrom, readParked } from '../columns.js';
import { idRows, jsonRows, jsonTable, lookUp, PARKED_IDS } from '../json-rows.js';
import type { MysqlFence } from '../ops/leases.js';
import { MysqlNumbers } from '../ready/numbers.js';

export function mysqlTake(names: TableNames, fence: MysqlFence, first: TakeSql['first']): TakeSql {
  const numbers = new MysqlNumbers(names);
  const { lock, join, demote, mark } = takeStatements(names);
  return {
    hold: (tx, owner, leases) => fence.hold(tx, owner, leases, true),
    first,
    draw: (tx, transport, count) => numbers.draw(tx, transport, count),
    lock: (transport, ids) => lock.bind(idRows(ids), transport),
    join: (rows) => join.bind(jsonRows(rows.map(([id, seq]) => [BigInt(id), seq === null ? null : BigInt(seq)]))),
    demote: (ids) => demote.bind(idRows(ids)),
    mark: (rows) => mark.bind(jsonRows(rows.map(([id, epoch]) => [BigInt(id), BigInt(epoch)]))),
  };
}

export function mysqlRead(names: TableNames): ReadSql {
  const { read } = takeStatements(names);
  return { lock: (transport, ids) => read.bind(idRows(ids), transport), message: readParked };
}

function takeStatements({ parked }: TableNames) {
  const byId = `${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`;
  const numbered = (number: string): string =>
    `${lookUp(jsonTable({ p: 'bigint unsigned', [number]: 'bigint unsigned' }), `${parked} p`)} on p.parked_id = k.p`;
  const DUE = 'p.due_at <= utc_timestamp(6), p.sending_epoch';
  const free = `where p.transport = ? ${updateOf('p')} skip locked`;
  return {
    lock: statement(
      'lock parked',
      `select p.parked_id, p.bucket, p.\`key\`, p.state, p.blocking, ${DUE} from ${byId} ${free}`,
    ),
    read: statement('read parked', `select ${messageFrom('p')}, ${parkedFrom('p')}, ${DUE} from ${byId} ${free}`),
    join: statement(
      'join order',
      `update ${numbered('s')} set p.state = ${WAITING}, p.blocking = 1, p.seq = coalesce(k.s, p.seq)
      where p.state = ${SCHEDULED}`,
    ),
    demote: statement('demote', `update ${byId} set p.state = ${BLOCKED}, p.due_at = null, p.sending_epoch = null`),
    mark: statement('mark sending', `update ${numbered('e')} set p.sending_epoch = k.e`),
  };
}
