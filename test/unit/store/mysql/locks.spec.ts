import { shareOf, updateOf } from '../../../../lib/store/mysql/capabilities.js';

/** What a server makes of its comments: MySQL reads those of its version, MariaDB those with an M, and not MySQL's of 5.7 and later. */
const onMysql = (sql: string): string =>
  words(sql.replace(/\/\*M!.*?\*\//g, '').replace(/\/\*!80001 (.*?)\*\//g, '$1'));
const onMariaDb = (sql: string): string =>
  words(sql.replace(/\/\*!80001.*?\*\//g, '').replace(/\/\*M!(.*?)\*\//g, '$1'));
const words = (sql: string): string => sql.trim().replace(/\s+/g, ' ');

describe('a lock on one table of a join', () => {
  it('names the table on MySQL, which cannot lock a list', () => {
    expect(onMysql(`${updateOf('p')} skip locked`)).toBe('for update of p skip locked');
    expect(onMysql(shareOf('l'))).toBe('for share of l');
  });

  it('names none on MariaDB, which knows no `of`', () => {
    expect(onMariaDb(`${updateOf('p')} skip locked`)).toBe('for update skip locked');
    expect(onMariaDb(shareOf('l'))).toBe('lock in share mode');
  });
});
