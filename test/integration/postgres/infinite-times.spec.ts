import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

const text = (value: string) => Buffer.from(value);

/** Of plain SQL: no driver of ours writes them. */
describeWith('postgres', 'times that are infinite', () => {
  let harness: Harness;
  beforeEach(async () => (harness = await createHarness('postgres', { buckets: 1 })));
  afterEach(() => harness.close());

  it('a message that is never due stops no other, and one that always was is due', async () => {
    const transport = new ScriptedTransport();
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await harness.dataSource.query(
      `insert into outbox_messages (topic, key, payload, due_at)
       values ('t', null, 'never', 'infinity'), ('t', 'a', 'never', 'infinity'), ('t', 'a', 'always', '-infinity')`,
    );
    await harness.enqueue([{ payload: text('soon'), delay: 300 }]);
    await transport.until(() => transport.published.length === 2);
    expect(transport.texts).toEqual(['always', 'soon']);
    expect(hooks.of('error')).toEqual([]);
    await until(async () => (await harness.store.admin.stats())[0]?.scheduled === 2);
  });

  it('an age that is infinite is none', async () => {
    await harness.dataSource.query(
      `insert into outbox_ready (transport, bucket, id, topic, type, payload, created_at)
       values (0, 0, gen_random_uuid(), 't', 't', '', 'infinity')`,
    );
    expect(await harness.store.admin.stats()).toMatchObject([{ ready: 1, oldestReadyAge: null }]);
    await harness.dataSource.query(`update outbox_ready set created_at = '-infinity'`);
    expect(await harness.store.admin.stats()).toMatchObject([{ ready: 1, oldestReadyAge: null }]);
  });
});
