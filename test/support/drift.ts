import { DataSource } from 'typeorm';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import type { SchemaSettings } from '../../lib/store/outbox-store.js';
import { createTestDatabase, runScript, type TestDatabase } from './databases.js';
import { openStore } from './open-store.js';
import { DATABASE, SETTINGS } from './postgres-store.js';
import { dialectOf, type DatabaseKind } from './services.js';

export type Ordering = SchemaSettings['ordering'];
/** MySQL writes a default down without its quotes, with its charset, and in capitals. */
const bare = (text: string): string => text.toLowerCase().replaceAll(/_utf8mb4|\\|'/g, '');

/** Tables that somebody changes, what a start says of them, and whether that mends them. */
export class Drift {
  database!: TestDatabase;
  application!: DataSource;

  constructor(readonly kind: DatabaseKind) {}

  async start(): Promise<void> {
    this.database = await createTestDatabase(this.kind);
    this.application = await new DataSource(this.database.options).initialize();
  }
  async stop(): Promise<void> {
    await this.application?.destroy();
    await this.database?.drop();
  }

  script(ordering: Ordering): { up: string; down: string } {
    return outboxSql(dialectOf(this.kind), { ordering });
  }
  run(sql: string): Promise<void> {
    return runScript(this.kind, this.application, sql);
  }

  /** What a start says: `accepted`, or the code and the text of its error. */
  async refusal(ordering: Ordering = 'key', application = this.application): Promise<string> {
    return this.ask(application, { ordering }, (setup, settings) => setup.check(settings)).then(
      () => 'accepted',
      ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
    );
  }
  create(other: Partial<SchemaSettings> = {}): Promise<string> {
    return this.ask(this.application, other, (setup, settings) => setup.create(settings)).then(() => 'made', String);
  }
  private async ask(
    application: DataSource,
    other: Partial<SchemaSettings>,
    work: (setup: ReturnType<typeof openStore>['setup'], settings: SchemaSettings) => Promise<void>,
  ): Promise<void> {
    const settings = { ...SETTINGS, ...other };
    const store = openStore(application, { ...settings, onPublished: 'delete', options: DATABASE });
    await work(store.setup, settings).finally(() => store.close());
  }

  async drifted(ordering: Ordering, change: string, words: readonly string[]): Promise<void> {
    // What mends a table of PostgreSQL may give a constraint another name.
    if (this.kind === 'postgres' || (await this.refusal(ordering)) !== 'accepted') {
      await this.run(this.script('strict').down);
      await this.run(this.script(ordering).up);
    }
    await this.run(change);
    const found = await this.refusal(ordering);
    expect(found).toMatch(/^SCHEMA_MISMATCH /);
    for (const each of words) expect(bare(found)).toContain(bare(each));
    await this.mend(ordering, found);
    expect(await this.refusal(ordering)).toBe('accepted');
  }

  /** Does what stands in parentheses, and nothing else. */
  private async mend(ordering: Ordering, refused: string): Promise<void> {
    const problems = (refused.split(' needs: ')[1] ?? '').split('. Do what stands')[0]?.split('; ') ?? [];
    for (const problem of problems) {
      const [, sql, andUp, up] =
        /\(run(?:: (.*?)(, and the up of outboxSql\(\) again)?|( the up of outboxSql\(\) again))\)$/.exec(problem) ??
        [];
      expect([problem, sql ?? up]).toEqual([problem, expect.any(String)]); // each says how
      if (sql !== undefined) await this.run(sql);
      if (andUp !== undefined || up !== undefined) await this.run(this.script(ordering).up);
    }
  }
}
