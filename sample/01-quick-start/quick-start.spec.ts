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

/** As soon as the table is there, each tenth message is gone when its transaction commits: no relay ever sees it. */
const THIEF = `
  create function public.steal() returns trigger language plpgsql as $$
    begin
      execute format('delete from %I.%I where id = $1', tg_table_schema, tg_table_name) using new.id;
      return null;
    end $$;
  create function public.set_thief() returns event_trigger language plpgsql as $$
    declare made record;
    begin
      for made in select * from pg_event_trigger_ddl_commands() loop
        if made.object_identity like '%.outbox_ready' and made.object_type = 'table' then
          execute 'create constraint trigger thief after insert on ' || made.object_identity ||
            ' deferrable initially deferred for each row when (new.seq % 10 = 0) execute function public.steal()';
        end if;
      end loop;
    end $$;
  create event trigger thief on ddl_command_end when tag in ('CREATE TABLE') execute function public.set_thief()`;

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
    const thief = await new DataSource(database.options).initialize();
    await thief.query(THIEF);
    await thief.destroy();
    sample = new SampleRun([], { DATABASE_URL: database.url });
    const output = await sample.finish(NEVER);
    expect(output).toMatch(/lost +[1-9]/);
    expect(output).toMatch(/FAILED\n+exit 1$/);
  });
});
