import { Drift } from '../support/drift.js';
import { describeWith } from '../support/services.js';

describeWith('postgres', 'objects on PostgreSQL that let others do more than they may', () => {
  const drift = new Drift('postgres');
  const { up } = drift.script('key');
  beforeAll(() => drift.start());
  afterAll(() => drift.stop());

  it.each([
    [
      'a second trigger makes two rows of each insert',
      `alter trigger outbox_messages_insert on outbox_messages rename to mine; ${up}`,
      [
        '"outbox_messages" has a second insert trigger, mine: every insert through it makes two rows (run: drop trigger',
      ],
    ],
    [
      'a row of any size may be inserted',
      'alter table outbox_ready drop constraint outbox_ready_limits',
      ['"outbox_ready" has no constraint "outbox_ready_limits"'],
    ],
    [
      'rows that are there may be of any size',
      `alter table outbox_ready drop constraint outbox_ready_limits, add ${up.match(/constraint "outbox_ready_limits" check .*(?=,$)|constraint "outbox_ready_limits" check .*/m)?.[0]} not valid`,
      ['the constraint "outbox_ready_limits" of "public"."outbox_ready" is not validated (run: alter table'],
    ],
    [
      'a longer header may be inserted',
      `alter table outbox_parked drop constraint outbox_parked_limits, add ${up.match(/constraint "outbox_parked_limits" check .*/)?.[0]?.replace('524288', '999999')}`,
      ['the constraint "outbox_parked_limits" of "public"."outbox_parked" is another one (run: alter table'],
    ],
    [
      'the names in a function are those of whoever calls it',
      'alter function outbox_messages_insert() reset search_path; alter function outbox_payload_text(bytea) set search_path = public',
      ['outbox_messages_insert"() has other settings', 'outbox_payload_text"(bytea) has other settings'],
    ],
    [
      'a function is somebody else’s',
      `do $$ begin create role outbox_other; exception when others then end $$; alter function outbox_messages_insert() owner to outbox_other`,
      ['outbox_messages_insert"() does not belong to the owner of the tables (run: alter function'],
    ],
  ])('I2: %s: refused, and mended by what the refusal says', (_what, change, words) =>
    drift.drifted('key', change, words),
  );

  it.each([
    [
      'what moves staged rows finds functions by the path of the writer',
      'alter function outbox_staged_move() reset search_path',
      ['outbox_staged_move"() has other settings (search_path)'],
    ],
    [
      'it runs as the writer',
      'alter function outbox_staged_move() security invoker',
      ['outbox_staged_move"() is security invoker'],
    ],
    [
      'everybody may put it behind a trigger',
      'grant execute on function outbox_staged_move() to public',
      ['everybody may execute the function "public"."outbox_staged_move"()'],
    ],
  ])('I2: %s: refused, and mended by what the refusal says', (_what, change, words) =>
    drift.drifted('strict', change, words),
  );
});
