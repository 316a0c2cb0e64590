import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

/** Only the policy of an event class is checked before it is stored; plain SQL writes what it likes. */
const SAID = [
  { initial: 'abc' },
  { initial: null, max: [] },
  { max: 'soon' },
  { initial: 1e30, max: 1e30 },
  { initial: -5_000, max: -5_000 },
  { maxAttempts: 'x', maxAge: 'y' },
  { onDead: 'perhaps' },
  null,
];

describe.each(DATABASES)('rows of another program on %s', (kind) => {
  describeWith(kind, 'that say what no policy is', () => {
    let harness: Harness;
    beforeAll(async () => (harness = await createHarness(kind, { retry: { initial: 1, max: 1, maxAttempts: 2 } })));
    afterAll(() => harness?.close());

    it('are tried and die by the module’s: none waits for ever', async () => {
      const [table, key] = kind === 'postgres' ? ['outbox_messages', 'key'] : ['outbox_ready', '`key`'];
      const rows = SAID.map(($retry, index) => `('t', 'k${index}', '1', '${JSON.stringify({ $retry })}')`);
      await harness.dataSource.query(
        `insert into ${table} (topic, ${key}, payload, options) values ${rows.join(', ')}`,
      );
      const transport = new ScriptedTransport();
      transport.behave = () => ({ ok: false, blame: 'message', error: new Error('no') });
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await hooks.until('dead', SAID.length);
      expect(hooks.of('dead').map(({ attempts }) => attempts)).toEqual(SAID.map(() => 2));
      const query = 'select distinct state, attempts from outbox_messages';
      const told = (await harness.dataSource.query(query)) as { state: string; attempts: unknown }[];
      expect(told.map(({ state, attempts }) => [state, Number(attempts)])).toEqual([['dead', 2]]);
    });
  });
});
