import type { SqlExecutor } from '../../../../lib/store/executor.js';
import { MysqlRowLocks } from '../../../../lib/store/mysql/ops/row-locks.js';
import { tableNames } from '../../../../lib/store/names.js';

describe('due rows of MariaDB and MySQL that are locked one page after the other', () => {
  it('B13: one that another row shifted into the next page is not locked, and sent, a second time', async () => {
    const names = tableNames({ prefix: 'outbox_' }, '`');
    const locks = new MysqlRowLocks(undefined as never, 4, names, undefined as never);
    const pages = [
      [['1'], ['2']],
      [['1'], ['9'], ['2']], // 9 fell due between the two looks
    ];
    const asked: string[] = [];
    const run: SqlExecutor['run'] = async ({ values }) => {
      const [list] = values;
      if (typeof list !== 'string') return { rows: pages.shift() ?? [], affected: 0 };
      asked.push(...(JSON.parse(list) as { c0: number }[]).map(({ c0 }) => String(c0)));
      return { rows: [], affected: 0 }; // somebody else holds them
    };
    expect(await locks.lockDue({ run }, 0, [0, 1, 2, 3], 2)).toEqual([]);
    expect(asked).toEqual(['1', '2', '9']);
  });
});
