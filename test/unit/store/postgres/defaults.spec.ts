import { plainDefault } from '../../../../lib/store/postgres/schema/plain-default.js';

const SEQUENCE = `nextval('"public"."outbox_ready_seq_seq"'::regclass)`;
const ASYNC = `(current_setting('synchronous_commit') = 'off')`;

describe('a default as PostgreSQL prints it', () => {
  it.each([
    [`'application/json'`, `'application/json'::text`],
    [`'application/json'`, `'application/json'::character varying(255)`],
    [`'-infinity'`, `'-infinity'::timestamp with time zone`],
    [`'{}'`, `'{}'::smallint[]`],
    [`0`, `'0'::smallint`.replaceAll(`'`, '')],
    ['clock_timestamp()', 'pg_catalog.clock_timestamp()'],
    [ASYNC, `(current_setting('synchronous_commit'::text) = 'off'::text)`],
    [ASYNC, `(pg_catalog.current_setting('synchronous_commit'::text) OPERATOR(pg_catalog.=) 'off'::text)`],
    [ASYNC, `current_setting('synchronous_commit'::text)='off'::pg_catalog.text`],
    [SEQUENCE, `nextval('outbox_ready_seq_seq'::regclass)`],
    [SEQUENCE, `nextval('public.outbox_ready_seq_seq'::regclass)`],
    [SEQUENCE, `nextval(('outbox_ready_seq_seq'::text)::regclass)`],
  ])('%s: %s', (wanted, found) => {
    expect(plainDefault(found, 'public')).toBe(plainDefault(wanted, 'public'));
  });

  it.each([
    ['clock_timestamp()', 'now()'],
    ['0', '1'],
    [ASYNC, 'false'],
    [ASYNC, `(current_setting('synchronous_commit'::text) <> 'off'::text)`],
    [SEQUENCE, `nextval('other.outbox_ready_seq_seq'::regclass)`],
  ])('%s is not %s', (wanted, found) => {
    expect(plainDefault(found, 'public')).not.toBe(plainDefault(wanted, 'public'));
  });
});
