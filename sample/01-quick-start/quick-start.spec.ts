// @tier gate
import { DataSource } from 'typeorm';
import { createTestDatabase, type TestDatabase } from '../../test/support/databases.js';
import { describeWith } from '../../test/support/services.js';
import { SampleRun } from '../run-sample.js';

jest.setTimeout(600_000);
/** Milliseconds: what takes longer never comes. */
const NEVER = 240_000;
const GOOD =
  /committed +176\n +rolled back +24 .*\n +published +176\n +duplicated.*\n +lost +0\n +invented +0\n +out of order +0\n[^]*OK after/;

it('npm start: nothing but npm, the relay killed in the middle, nothing lost', async () => {
  const output = await new SampleRun([]).finish(NEVER);
  expect(output).toMatch(GOOD);
  expect(output).toMatch(/SIGKILL for the relay/);
  expect(output).toMatch(/exit 0$/);
});

describeWith('postgres', 'the quick start on a database of its own', () => {
  let database: TestDatabase;
  let sample: SampleRun | undefined;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
  });
  afterEach(async () => {
    await sample?.stop();
  });
  afterAll(async () => {
    await database.drop();
  });

  it('exits 1 when a message is lost', async () => {
    sample = new SampleRun([], { DATABASE_URL: database.url });
    await sample.printed(/SIGKILL for the relay/, NEVER);
    const thief = await new DataSource(database.options).initialize();
    const [{ name }] = (await thief.query(
      `select nspname as name from pg_namespace where nspname like 'quick_start_%'`,
    )) as [{ name: string }];
    let stolen: unknown[] = [];
    while (stolen.length === 0)
      [stolen] = (await thief.query(`delete from ${name}.outbox_ready returning id`)) as [unknown[]];
    await thief.destroy();
    const output = await sample.finish(NEVER);
    expect(output).toMatch(/lost +[1-9]/);
    expect(output).toMatch(/FAILED\n+exit 1$/);
  });
});
