import { OutboxAdmin, PUBLISHED } from '../../../lib/index.js';
import { numberOf } from '../../../lib/enqueue/destinations.js';
import { rewrite } from '../../../lib/nest/rewrite.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { DATABASES, describeWith } from '../../support/services.js';
import { gate } from '../../support/transport-relay.js';
import { until } from '../../support/until.js';

const REFUSED = { code: 'EDIT_REFUSED' };

describe.each(DATABASES)('An edit beside a relay on %s', (kind) => {
  describeWith(kind, 'of messages that it may take', () => {
    let harness: Harness;
    let transport: ScriptedTransport;
    let admin: OutboxAdmin;
    const open = async (coordination: 'buckets' | 'rowLock'): Promise<void> => {
      const ordering = coordination === 'rowLock' ? 'none' : 'key';
      harness = await createHarness(kind, { coordination, ordering, pollInterval: 20, retry: { initial: 1, max: 1 } });
      transport = new ScriptedTransport();
      const { store, options, transportIds } = harness;
      const sources = { options, transportIds };
      admin = new OutboxAdmin({
        ...{ store, options, numberOf, pausesChanged: () => undefined, changed: () => undefined },
        rewrite: (...edit) => rewrite(sources, ...edit),
      });
    };
    afterEach(() => harness.close());

    it.each(['buckets', 'rowLock'] as const)(
      'with coordination %s it is refused while the message is being sent, and changes nothing of it',
      async (coordination) => {
        await open(coordination);
        const { dispatcher } = harness.relay({ default: transport });
        const publishing = gate();
        let tries = 0;
        transport.behave = async () => {
          if (++tries === 1) return { ok: false, blame: 'message', error: new Error('no') };
          await publishing.opened;
          return PUBLISHED;
        };
        await dispatcher.start();
        const [id = ''] = await harness.enqueue([{ payload: Buffer.from('1') }]);
        await until(() => tries === 2);
        await expect(admin.edit(id, { payload: 2 })).rejects.toMatchObject({
          ...REFUSED,
          message: expect.stringMatching(/being sent just now/),
        });
        publishing.open();
        await transport.until(() => transport.published.length === 1);
        expect(transport.texts).toEqual(['1']);
        expect((await admin.audit()).entries).toEqual([]);
      },
    );

    it.each(['buckets', 'rowLock'] as const)(
      'with coordination %s what is published is what the last edit that was told as done says',
      async (coordination) => {
        await open(coordination);
        const { dispatcher } = harness.relay({ default: transport });
        const isOrdered = coordination === 'buckets';
        const ids = await harness.enqueue(
          Array.from({ length: 30 }, (_, n) => ({
            ...{ key: isOrdered ? `k${n % 10}` : null, payload: Buffer.from('0'), delay: 300 + n * 50 },
          })),
        );
        const told = new Map(ids.map((id) => [id, 0]));
        const edit = async (id: string, version: number): Promise<void> => {
          const changes = { payload: version, headers: { version: String(version) } };
          const failed: unknown = await admin.edit(id, changes).then(
            () => undefined,
            (error: unknown) => error,
          );
          if (failed === undefined) told.set(id, version);
          else expect(failed).toMatchObject(REFUSED);
        };
        // Before the relay is there, so that something is edited however slow the machine is.
        await edit(ids.at(-1) as string, 1);
        await dispatcher.start();
        for (let version = 2; transport.published.length < ids.length; version++)
          for (const id of [...ids].reverse())
            if (!transport.published.some((one) => one.id === id)) await edit(id, version);
        expect(transport.published.map((one) => [one.id, Number(one.payload)]).sort()).toEqual([...told].sort());
        // Headers and payload of one version go together.
        for (const { payload, headers } of transport.published) expect(headers['version'] ?? '0').toBe(String(payload));
        expect([...told.values()].some((version) => version > 0)).toBe(true);
      },
    );
  });
});
