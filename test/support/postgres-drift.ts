import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { SETTINGS, type PostgresFixture } from './postgres-store.js';

type Ordering = 'key' | 'strict';

/** Tables that somebody changes, what a start says of them, and whether that mends them. */
export function driftOf(fixture: PostgresFixture) {
  const run = (sql: string) => fixture.application.query(sql);
  const script = { key: outboxSql('postgres'), strict: outboxSql('postgres', { ordering: 'strict' }) };
  const refusal = (ordering: Ordering): Promise<string> =>
    fixture
      .store({ ordering })
      .setup.check({ ...SETTINGS, ordering })
      .then(
        () => 'accepted',
        ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
      );
  async function drifted(ordering: Ordering, change: string, words: readonly string[]): Promise<void> {
    const { up, down } = script[ordering];
    await run(down + up);
    expect(await refusal(ordering)).toBe('accepted');
    await run(change);
    const found = await refusal(ordering);
    expect(found).toMatch(/^SCHEMA_MISMATCH /);
    for (const each of words) expect(found).toContain(each);
    await mend(ordering, found);
    expect(await refusal(ordering)).toBe('accepted');
  }
  /** Does what stands in parentheses, and nothing else. */
  async function mend(ordering: Ordering, refused: string): Promise<void> {
    const problems = (refused.split(' needs: ')[1] ?? '').split('. Do what stands')[0]?.split('; ') ?? [];
    for (const problem of problems) {
      const [, sql, andUp, up] =
        /\(run(?:: (.*?)(, and the up of outboxSql\(\) again)?|( the up of outboxSql\(\) again))\)$/.exec(problem) ??
        [];
      expect(sql ?? up).toBeDefined(); // each says how
      if (sql !== undefined) await run(sql);
      if (andUp !== undefined || up !== undefined) await run(script[ordering].up);
    }
  }

  return { refusal, drifted, script };
}
