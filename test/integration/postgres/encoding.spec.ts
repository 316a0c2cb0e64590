import { DataSource } from 'typeorm';
import { PostgresFixture, SETTINGS } from '../../support/postgres-store.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'the encoding of a PostgreSQL database', () => {
  const fixture = new PostgresFixture();
  const run = (sql: string) => fixture.application.query(sql);
  beforeAll(() => fixture.start());
  afterAll(() => fixture.stop());

  it.each(['LATIN1', 'SQL_ASCII'])('F5: a database whose texts are %s is refused', async (encoding) => {
    const url = `${fixture.database.url}_${encoding.toLowerCase()}`;
    const database = new URL(url).pathname.slice(1);
    await run(`create database ${database} template template0 encoding '${encoding}' lc_collate 'C' lc_ctype 'C'`);
    const dataSource = await new DataSource({ type: 'postgres', url }).initialize();
    try {
      const own = fixture.store({}, dataSource);
      for (const start of [own.setup.create(SETTINGS), own.setup.check(SETTINGS)])
        await expect(start).rejects.toMatchObject({
          code: 'UNSUPPORTED_DATABASE',
          message: expect.stringContaining(`keeps its texts in ${encoding}`),
        });
    } finally {
      await dataSource.destroy();
      await run(`drop database ${database} with (force)`);
    }
  });
});
