import { isOwn, missingPartitions, oldPartitions } from '../../../lib/partitions/plan.js';
import { timeOf } from '../../../lib/store/mysql/partitions/layout.js';
import { partitionOf } from '../../../lib/store/postgres/partitions/layout.js';
import { partitionAt, partitionNamed } from '../../../lib/store/partitions/period.js';

const HOUR = 3_600_000;
const at = (text: string): number => Date.parse(text);

describe('the partitions of a period', () => {
  it.each([
    ['month', '2024-02-29T23:59:59.999Z', 'p202402', '2024-02-01T00:00:00Z', '2024-03-01T00:00:00Z'],
    ['month', '2025-12-31T23:59:59.999Z', 'p202512', '2025-12-01T00:00:00Z', '2026-01-01T00:00:00Z'],
    ['day', '2024-02-29T00:00:00Z', 'p20240229', '2024-02-29T00:00:00Z', '2024-03-01T00:00:00Z'],
    ['day', '2025-12-31T12:00:00Z', 'p20251231', '2025-12-31T00:00:00Z', '2026-01-01T00:00:00Z'],
    // Clocks in Berlin go back an hour at 01:00 UTC.
    ['hour', '2025-10-26T01:30:00Z', 'p2025102601', '2025-10-26T01:00:00Z', '2025-10-26T02:00:00Z'],
  ] as const)('S4-47: %s of %s is %s', (period, time, name, from, to) => {
    const partition = { name, from: at(from), to: at(to) };
    expect(partitionAt(at(time), period)).toEqual(partition);
    expect(partitionNamed(name)).toEqual(partition);
  });

  it('no other name is one of ours', () => {
    for (const name of ['p202513', 'p20250230', 'p2025030124', 'p2025', 'pmax', 'x202503', 'p202503; drop'])
      expect(partitionNamed(name)).toBeUndefined();
    const march = partitionAt(at('2025-03-05T00:00:00Z'), 'month');
    expect(isOwn(march)).toBe(true);
    expect(isOwn({ ...march, to: march.to + 1 })).toBe(false);
  });

  it('bounds that cannot be read have no end', () => {
    const march = partitionAt(at('2025-03-05T00:00:00Z'), 'month');
    const bounds = (from: string, to: string) => partitionOf('p202503', `FOR VALUES FROM (${from}) TO (${to})`);
    expect(bounds(`'2025-03-01 00:00:00+00'`, `'2025-04-01 00:00:00+00'`)).toEqual(march);
    expect(bounds('MINVALUE', `'2025-04-01 00:00:00+00'`)).toEqual({ ...march, from: null });
    // As other sessions print them: another zone, another style, other types, several columns.
    for (const to of [
      `'2025-04-01 00:00:00+01'`,
      `'2025-04-01 05:45:00+05:45'`,
      `'Tue Apr 01 00:00:00 2025 UTC'`,
      `'2025-04-01'`,
      `'infinity'`,
      'MAXVALUE',
      `'0044-03-15 00:00:00+00 BC'`,
      `'2025-04-01 00:00:00+00', 7`,
    ]) {
      const read = bounds(`'2025-03-01 00:00:00+00'`, to);
      expect(read?.to).toBe(Infinity);
      expect(isOwn(read as never)).toBe(false);
    }
    expect(timeOf(`'2025-04-01 00:00:00'`)).toBe(march.to);
    expect(timeOf(`'2025-04-01'`)).toBe(march.to); // as a server keeps it where somebody wrote it so
    for (const bound of ['MAXVALUE', '1743465600', `'2025-04-01 00:00:00' , 7`, 'null'])
      expect(timeOf(bound)).toBe(Infinity);
  });

  it('shorter ones fill up to where a longer period begins', () => {
    const now = at('2025-03-29T10:00:00Z');
    const layout = {
      kind: 'partitioned',
      problems: [],
      appendOnly: true,
      aside: false,
      catchAll: '',
      now,
      partitions: [partitionAt(now, 'day')],
    } as const;
    const rules = { period: 'month', lookahead: HOUR, retention: HOUR } as const;
    expect(missingPartitions(layout, rules, undefined).map(({ name }) => name)).toEqual([
      'p20250330',
      'p20250331',
      'p202504',
    ]);
  });

  it('a partition is old once its end is as old as the retention', () => {
    const now = at('2025-03-03T00:00:00Z');
    const partitions = ['2025-03-01', '2025-03-02'].map((day) => partitionAt(at(`${day}T00:00:00Z`), 'day'));
    const layout = {
      kind: 'partitioned',
      problems: [],
      appendOnly: false,
      aside: false,
      catchAll: '',
      now,
      partitions,
    } as const;
    const old = (retention: number | null) =>
      oldPartitions(layout, { period: 'day', lookahead: HOUR, retention }).map(({ name }) => name);
    expect(old(24 * HOUR)).toEqual(['p20250301']);
    expect(old(24 * HOUR + 1)).toEqual([]);
    expect(old(null)).toEqual([]);
  });
});
