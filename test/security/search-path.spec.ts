import { TypeOrmModule } from '@nestjs/typeorm';
import { Test, type TestingModule } from '@nestjs/testing';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { OutboxDispatcher, OutboxModule, OutboxService, OutboxUnlocker, type OutboxOptions } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';

/**
 * What anybody makes who may create in `public`: for each function and aggregate of PostgreSQL's that SQL of ours could call
 * one of the same name that fits some arguments better, and operators for pairs of types that have none of their own. Each
 * notes in a sequence, which no rollback takes back, that it ran, and fails.
 */
const HOSTILE = `
create sequence public.ran; grant all on sequence public.ran to public;
do $do$
declare
  types text[] := array['int2','int4','int8','text','name','bytea','uuid','bool','float8','numeric','timestamptz','interval','jsonb','json','xid8','int2[]','int4[]','int8[]','text[]','uuid[]','bool[]','float8[]'];
  names text[] := array['array_agg','bool_or','cardinality','ceil','convert_from','convert_to','count','encode','format','generate_series','get_byte','hashtext','hashtextextended','isfinite','json_build_array','jsonb_agg','jsonb_array_elements','jsonb_build_array','jsonb_build_object','max','min','nextval','octet_length','left','replace','set_bit','set_config','sha256','string_agg','sum','to_char','to_regclass','unnest','overlay','substring','int8send','uuid_send','pg_visible_in_snapshot','pg_advisory_xact_lock','current_setting','concat','coalesce','date_part','extract'];
  body text := 'begin perform pg_catalog.nextval(''public.ran''); raise exception ''code of a stranger''; end';
  f text; a text; b text; o text;
begin
  foreach f in array names loop
    foreach a in array types loop
      begin
        if f in ('array_agg','bool_or','count','jsonb_agg','max','min','sum') then
          execute format('create function public.step_%s(bigint, %s) returns bigint language plpgsql as %L', f, a, body);
          execute format('create aggregate public.%I(%s) (sfunc = public.step_%s, stype = bigint, initcond = ''0'')', f, a, f);
        else
          execute format('create function public.%I(%s) returns %s language plpgsql as %L', f, a, a, body);
        end if;
      exception when others then null; end;
      foreach b in array array['text','name','int4','int8','bool','text[]','int4[]'] loop
        begin
          execute format('create function public.%I(%s, %s) returns text language plpgsql as %L', f, a, b, body);
        exception when others then null; end;
      end loop;
    end loop;
    begin execute format('create function public.%I(variadic text[]) returns json language plpgsql as %L', f, body); exception when others then null; end;
    begin execute format('create function public.%I(text, text, bool) returns text language plpgsql as %L', f, body); exception when others then null; end;
  end loop;
  foreach a in array types loop
    foreach b in array types loop
      execute format('create function public.stranger(%s, %s) returns bool language plpgsql as %L', a, b, body);
      foreach o in array array['=','<>','<','>','<=','>=','||','+','-','*','%%','&','|','<<'] loop
        begin
          execute format('create operator public.%s (function = public.stranger, leftarg = %s, rightarg = %s)', replace(o, '%%', '%'), a, b);
        exception when others then null; end;
      end loop;
    end loop;
  end loop;
end $do$`;

describeWith('postgres', 'functions, aggregates and operators that somebody else put on the search path', () => {
  let database: TestDatabase;
  let admin: DataSource;
  const open: TestingModule[] = [];
  beforeEach(async () => {
    database = await createTestDatabase('postgres');
    admin = await new DataSource({ ...database.options } as DataSourceOptions).initialize();
  });
  afterEach(async () => {
    for (const app of open.splice(0)) await app.close();
    await admin.destroy();
    await database.drop();
  });
  const ran = async (): Promise<boolean> => (await admin.query('select is_called from public.ran'))[0].is_called;

  it.each([
    ['key', true],
    ['strict', true],
    ['key', false], // behind a transaction pooler no session is ours
  ] as const)('I1: never run: ordering %s, sessions of ours %s', async (ordering, preparedStatements) => {
    // As another migration tool makes them: SQL as text, without a schema.
    await admin.query(outboxSql('postgres', { ordering }).up);
    await admin.query(HOSTILE);
    // It would: what is called by its bare name is a stranger's.
    await expect(admin.query(`select convert_from('\\x61'::bytea, 'UTF8')`)).rejects.toThrow('code of a stranger');
    await admin.query('alter sequence public.ran restart');
    const transport = new RecordingTransport();
    transport.fail({ when: ({ type, attempts }) => type === 'again' && attempts === 0 });
    transport.fail({ final: true, when: ({ type }) => type === 'dead' });
    const options: OutboxOptions = {
      transports: { default: transport },
      ordering,
      relay: 'manual',
      logLevel: 'silent',
      onPublished: 'archive',
      retry: { initial: 1, max: 1, errorHistory: 3 },
      database: { setup: 'check', preparedStatements },
    };
    const imports = [TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }), OutboxModule.forRoot(options)];
    const app = await (
      await Test.createTestingModule({ imports })
        .setLogger(false as never)
        .compile()
    ).init();
    open.push(app);
    const outbox = app.get(OutboxService);
    await outbox.transaction(async () => {
      await outbox.enqueue({ type: 'one', key: 'a', payload: { n: 1 }, headers: { h: 'v' } }, { dedupKey: 'd' });
      await outbox.enqueue([1, 2, 3].map((n) => ({ type: 'many', key: `k${n}`, payload: { n } })));
      await outbox.enqueue({ type: 'again', key: 'b', payload: 'x'.repeat(70_000) });
      await outbox.enqueue({ type: 'dead', key: 'c', payload: {} });
      await outbox.enqueue({ type: 'later', key: 'a', payload: {} }, { delay: 1 });
    });
    await admin.query(
      `insert into outbox_messages (topic, key, payload) values ('plain', 'p', '{}'), ('plain', null, 'x')`,
    );
    await app.get(OutboxDispatcher).drain();
    await app.get(OutboxUnlocker).runOnce();
    expect((await outbox.stats()).total).toMatchObject({ dead: 1 });
    await outbox.health();
    await outbox.release('c');
    await outbox.cancel({ key: 'nobody' });
    expect((await outbox.requeue({ type: 'dead' })).done).toHaveLength(1);
    await outbox.discard({ type: 'dead' });
    await admin.query('select id, state, payload, errors from outbox_messages'); // a superuser looks
    await admin.query(outboxSql('postgres', { ordering }).up); // and migrates
    expect(transport.published.map(({ type }) => type).sort()).toEqual(
      ['again', 'later', 'many', 'many', 'many', 'one', 'plain', 'plain'].sort(),
    );
    expect(await ran()).toBe(false);
  });
});
