import type { PublishResult } from '../../../lib/index.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnMysqlFamily } from '../../support/services.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });
/** What a message of these bytes says its key is. */
const named = (hex: string): string => `\udc80${hex}`;

/** On PostgreSQL keys are text, and the server refuses other bytes. */
describeOnMysqlFamily('keys that are no UTF-8, written by another program', (kind) => {
  let harness: Harness;
  let transport: ScriptedTransport;
  beforeEach(() => {
    transport = new ScriptedTransport();
  });
  afterEach(() => harness?.close());

  /** In one transaction; the payload is its key and a number. */
  const write = (...messages: [hex: string, payload: string][]): Promise<unknown> => {
    const rows = messages.map(([hex, payload]) => `('orders', x'${hex}', '${payload}')`);
    return harness.dataSource.query(`insert into outbox_ready (topic, \`key\`, payload) values ${rows.join(', ')}`);
  };
  const left = async () => (await harness.count('ready')) + (await harness.count('parked'));

  it('keep their order over a failure, and nothing of them is lost', async () => {
    harness = await createHarness(kind, { buckets: 1 });
    let failures = 1;
    transport.behave = () => (failures-- > 0 ? rejected() : { ok: true });
    await write(['ff01', '1'], ['ff01', '2'], ['ff01', '3']);
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    await transport.until(() => transport.published.length === 3);
    await write(['ff01', '4']);
    await transport.until(() => transport.published.length === 4);
    expect(transport.texts).toEqual(['1', '2', '3', '4']);
    expect(new Set(transport.published.map(({ key }) => key))).toEqual(new Set([named('ff01')]));
    await until(async () => (await left()) === 0);
  });

  it('that a decoder would take for the same are different ones, and operators can name each', async () => {
    harness = await createHarness(kind, { buckets: 1, retry: { maxAttempts: 1 } });
    transport.behave = ({ payload }) => (String(payload).endsWith('dead') ? rejected() : { ok: true });
    const { dispatcher, hooks, store } = harness.relay({ default: transport });
    await write(['ff', 'ff dead'], ['ff', 'ff 2'], ['fe', 'fe 1'], ['fd', 'fd dead'], ['fd', 'fd 2']);
    await write(['efbfbd', 'U+FFFD itself']);
    await dispatcher.start();
    await transport.until(() => transport.published.length === 2);
    expect(transport.texts.sort()).toEqual(['U+FFFD itself', 'fe 1']);
    await hooks.until('dead', 2);
    await until(async () => (await harness.count('ready')) === 0);

    const keys = await store.parked.blockingKeys(0, [0], 10);
    expect(keys.map(({ key }) => key)).toEqual([named('fd'), named('ff')]);
    expect(await store.parked.blockingKeys(0, [0], 10, new Map([[0, named('fd')]]))).toHaveLength(1);
    expect(await store.parked.blockedAmong(0, [...keys, { bucket: 0, key: named('fe') }])).toHaveLength(2);

    expect(await operatorOf(store).release(named('ff'))).toBe(1);
    await transport.until(() => transport.published.length === 3);
    expect((await operatorOf(store).discard({ key: named('fd'), state: ['dead', 'blocked'] })).done).toBe(2);
    await write(['fd', 'fd 3']);
    await transport.until(() => transport.texts.includes('fd 3'));
    expect(transport.texts.slice(2)).toEqual(['ff 2', 'fd 3']);
    await until(async () => (await left()) === 1); // the dead one that was released
  });
});
