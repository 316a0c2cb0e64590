import { isSameDefault } from '../../../../lib/store/mysql/schema/plain-default.js';
import { mysqlTables } from '../../../../lib/store/mysql/schema/tables.js';

const tables = mysqlTables({ prefix: '', buckets: 32, ordering: 'key', coordination: 'buckets' });
const wanted = (name: string): string => {
  const column =
    tables.parked.columns.find(([each]) => each === name) ?? tables.leases.columns.find(([each]) => each === name);
  return /default (.+?)(?: check.*)?$/s.exec(column?.[2] ?? '')?.[1] as string;
};

/** What servers print that do not run here, put together from their sources and the results of their own tests. */
describe('a default as MySQL, and MariaDB of another version, print it', () => {
  it.each([
    ['content_type', 'application/json'],
    ['content_type', `'application/json'`],
    ['expires_at', '1970-01-01 00:00:00.000000'],
    ['expires_at', `'1970-01-01 00:00:00'`],
    ['epoch', '0'],
    ['epoch', `'0'`],
    ['state', '1'],
    ['created_at', 'utc_timestamp(6)'],
    ['created_at', '(utc_timestamp(6))'],
    ['type', '`topic`'],
    ['bucket', '(conv(left(sha2(coalesce(`key`,`id`),256),4),16,10) % 32)'],
    ['bucket', 'conv(left(sha2(coalesce(`key`,`id`),256),4),16,10) MOD 32'],
    ['bucket', 'mod(conv(left(sha2(coalesce(`key`,`id`),256),4),16,10),32)'],
    [
      'id',
      `lower(concat(insert(lpad(hex(cast((unix_timestamp(now(3)) * 1000) as unsigned)),12,_utf8mb4\\'0\\'),9,0,_utf8mb4\\'-\\'),_utf8mb4\\'-7\\',left(sha2(uuid(),256),3),_utf8mb4\\'-\\',substr(_utf8mb4\\'89ab\\',(1 + (conv(left(sha2(uuid(),256),2),16,10) & 3)),1),left(sha2(uuid(),256),3),_utf8mb4\\'-\\',left(sha2(uuid(),256),12)))`,
    ],
    [
      'id',
      `lcase(concat(insert(lpad(hex(cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)),12,'0'),9,0,'-'),'-7',left(sha2(uuid(),256),3),'-',substr('89ab',1 + (conv(left(sha2(uuid(),256),2),16,10) & 3),1),left(sha2(uuid(),256),3),'-',left(sha2(uuid(),256),12)))`,
    ],
  ])('%s: %s', (column, found) => {
    expect(isSameDefault(wanted(column), found)).toBe(true);
  });

  it.each([
    ['content_type', 'text/plain'],
    ['epoch', '1'],
    ['created_at', 'current_timestamp(6)'],
    ['created_at', 'now(6)'],
    ['created_at', 'utc_timestamp()'],
    ['bucket', '(conv(left(sha2(coalesce(`key`,`id`),256),4),16,10) % 64)'],
    ['bucket', '0'],
    ['id', 'uuid()'],
    ['type', `'topic'`],
    ['type', '`id`'],
  ])('%s is another one: %s', (column, found) => {
    expect(isSameDefault(wanted(column), found)).toBe(false);
  });
});
