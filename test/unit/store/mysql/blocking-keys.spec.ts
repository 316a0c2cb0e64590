import { MysqlBlockingKeys } from '../../../../lib/store/mysql/parked/blocking-keys.js';
import type { SqlConnection } from '../../../../lib/store/executor.js';
import { tableNames } from '../../../../lib/store/names.js';
import type { Sql } from '../../../../lib/store/sql.js';

describe('MySQL: keys that are blocked', () => {
  const keys = new MysqlBlockingKeys(tableNames({ prefix: 'outbox_' }, '`'));
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
      if (text.startsWith('(select bucket')) {
        const found = there.filter((key) => Buffer.compare(Buffer.from(key), values[2] as Buffer) >= 0).slice(0, 50);
        return { rows: found.map((key) => [0, Buffer.from(key)]), affected: 0 };
      }
      between();
      const list = JSON.parse(String(values[0])) as { c0: number; c2: string }[];
      const waiting = list.filter(({ c2 }) => there.includes(Buffer.from(c2, 'hex').toString()));
      return { rows: waiting.map(({ c0 }) => [c0]), affected: 0 };
    },
  } as unknown as SqlConnection;

  it('one that is unblocked between the two reads does not make the page look like the last one', async () => {
    between = () => void there.shift();
    const found = await keys.list(connection, 0, [0], 3);
    // The first is to be asked for, which finds that it is free.
    expect(found.map(({ key, ready }) => `${key} ${ready}`)).toEqual(['a true', 'b false', 'c false']);
    const rest = await keys.list(connection, 0, [0], 3, new Map([[0, 'c']]));
    expect(rest.map(({ key }) => key)).toEqual(['d']);
  });

  it('asks for many keys at once whether they can go on: it took a minute for those of a take-over', async () => {
    let asked = 0;
    between = () => void (asked += 1);
    there = Array.from({ length: 2_500 }, (_, n) => `k${n + 1_000}`);
    expect(await keys.list(connection, 0, [0], 50_000)).toEqual(there.map((key) => ({ bucket: 0, key, ready: false })));
    expect(asked).toBe(3);
  });
});
