import { MysqlBlockingKeys } from '../../../../lib/store/mysql/parked/blocking-keys.js';
import { mysqlHeads } from '../../../../lib/store/mysql/parked/wake.js';
import type { SqlConnection } from '../../../../lib/store/executor.js';
import { tableNames } from '../../../../lib/store/names.js';
import type { Sql } from '../../../../lib/store/sql.js';

const BLOCKED = 3;
const EPOCH = '7';

describe('MySQL: keys that are blocked', () => {
  const names = tableNames({ prefix: 'outbox_' }, '`');
  const keys = new MysqlBlockingKeys(names, mysqlHeads(names, 'key'));
  let there: string[];
  /** Runs after the keys were read and before what blocks them is. */
  let between: () => void;
  beforeEach(() => {
    there = ['a', 'b', 'c', 'd'];
    between = () => undefined;
  });

  /** One bucket; each of its keys is blocked by one row. */
  const connection = {
    async run({ statement: { questionMarks: text }, values }: Sql) {
      if (text.includes('expires_at')) return { rows: [[0, EPOCH]], affected: 0 };
      if (text.startsWith('(select bucket')) {
        const found = there.filter((key) => Buffer.compare(Buffer.from(key), values[2] as Buffer) >= 0);
        return { rows: found.map((key) => [0, Buffer.from(key)]), affected: 0 };
      }
      between();
      const asked = Array.from({ length: values.length / 5 }, (_, i) => values.slice(5 * i, 5 * i + 5));
      const heads = asked.filter(([, , , key]) => there.includes(String(key)));
      return { rows: heads.map(([index]) => [index, '1', BLOCKED, 0, EPOCH]), affected: 0 };
    },
  } as unknown as SqlConnection;

  it('one that is unblocked between the two reads does not make the page look like the last one', async () => {
    between = () => void there.shift();
    const found = await keys.list(connection, 0, [0], 3);
    expect(found.map(({ key, ready }) => [key, ready])).toEqual([
      ['a', true], // to be asked for, which finds that it is free
      ['b', false],
      ['c', false],
    ]);
    const rest = await keys.list(connection, 0, [0], 3, new Map([[0, 'c']]));
    expect(rest.map(({ key }) => key)).toEqual(['d']);
  });
});
