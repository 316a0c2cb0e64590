import { randomBytes } from 'node:crypto';
import type { PublishResult } from '../../../lib/index.js';
import { takeChunks } from '../../support/lost-chunks.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, describeOnMysqlFamily } from '../../support/services.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

const text = (value: string) => Buffer.from(value);
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describeOnMysqlFamily('a message that cannot be parked beside another of its id', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  /** As somebody may make it, which a process with `setup: 'none'` works on. */
  const makeUnique = () =>
    harness.dataSource.query('alter table outbox_parked drop key by_id, add unique key by_id (id, transport)');

  /** The first is dead, and the second, which has its id, cannot be parked beside it. */
  async function twins(batchSize: number, second: { key?: string } = {}) {
    harness = await createHarness(kind, { buckets: 1, batchSize, retry: { maxAttempts: 1 } });
    await makeUnique();
    const transport = new ScriptedTransport();
    transport.behave = rejected;
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    const [id] = await harness.enqueue([{ payload: text('first') }]);
    await hooks.until('dead');
    await harness.enqueue([{ ...second, id: id as string, payload: text('second') }]);
    const told = await hooks.until('error');
    return { id, transport, dispatcher, hooks, told };
  }

  it('F8: holds up nobody, no pass and no stop, and is parked when the id is free', async () => {
    const { id, transport, dispatcher, hooks, told } = await twins(500);
    expect(told).toMatchObject({ operation: 'park', error: { errno: 1062 } });

    const [other] = await harness.enqueue([{ payload: text('third'), key: 'a' }]);
    expect(await hooks.until('dead', 2)).toMatchObject({ id: other });
    transport.behave = () => ({ ok: true });
    await harness.enqueue([{ payload: text('fourth') }]);
    await transport.until(() => transport.texts.includes('fourth'));
    await dispatcher.runOnce();
    expect([await harness.count('ready'), await harness.count('parked')]).toEqual([1, 2]);
    expect(transport.attempted).toHaveLength(4);

    await operatorOf(harness.store).discard({ ids: [id as string] });
    expect(await hooks.until('dead', 3)).toMatchObject({ id });
    expect([await harness.count('ready'), await harness.count('parked')]).toEqual([0, 2]);
  });

  it('F8: behind the first of its id and key it waits for that one, and those behind it for both', async () => {
    harness = await createHarness(kind, { buckets: 1, retry: { initial: 50, max: 50 } });
    await makeUnique();
    const transport = new ScriptedTransport();
    let failures = 3;
    transport.behave = () => (failures-- > 0 ? rejected() : { ok: true });
    const { dispatcher, hooks } = harness.relay({ default: transport });
    const [id] = await harness.enqueue([{ key: 'a', payload: text('1') }]);
    await harness.enqueue([
      { key: 'a', id: id as string, payload: text('2') },
      { key: 'a', payload: text('3') },
    ]);
    await dispatcher.start();
    await hooks.until('error');
    await harness.enqueue([{ key: 'a', payload: text('4') }]);
    await transport.until(() => transport.published.length === 4);
    expect(transport.texts).toEqual(['1', '2', '3', '4']);
    expect(hooks.of('error').every(({ operation }) => operation === 'park')).toBe(true);
    await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0);
  });
});

describeWith('postgres', 'a lost payload behind a message that fails', () => {
  let harness: Harness;
  afterEach(() => harness?.close());

  it('D8: holds up nobody, and its key goes on in order when it is back', async () => {
    harness = await createHarness('postgres', { buckets: 1, retry: { initial: 50, max: 50 } });
    const lost = randomBytes(100_000);
    const ids = await harness.enqueue([
      { key: 'a', payload: text('first') },
      { key: 'a', payload: lost },
      { key: 'a', payload: text('behind') },
    ]);
    const chunks = await takeChunks(harness, ids[1] as string);
    const transport = new ScriptedTransport();
    const failing = new Set(['first', 'other']);
    transport.behave = ({ payload }) => (failing.has(String(payload)) ? rejected() : { ok: true });
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    expect(await hooks.until('error')).toMatchObject({
      operation: 'park',
      error: { code: expect.stringMatching(/^XX00/) },
    });

    const [other, later] = await harness.enqueue([
      { key: 'b', payload: text('other') },
      { key: 'a', payload: text('later') },
    ]);
    await until(() => hooks.of('retried').some(({ id }) => id === other));
    failing.clear();
    await transport.until(() => transport.published.length === 2);
    await dispatcher.runOnce();
    expect(transport.texts.sort()).toEqual(['first', 'other']);
    expect(await harness.count('parked')).toBe(0);

    await chunks.putBack();
    await transport.until(() => transport.published.length === 5, 120_000); // after the pause of one that is damaged
    expect(transport.published.slice(2).map(({ id }) => id)).toEqual([ids[1], ids[2], later]);
  });
});
