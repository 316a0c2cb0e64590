import { DataSource } from 'typeorm';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { createHarness, newMessage, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

/** From here on neighbours are the same to a JavaScript number. */
const START = 2n ** 53n - 2n;
const rejected = (final: boolean) => ({ ok: false, blame: 'message', final, error: new Error('no') }) as const;

/** DataSources whose drivers make numbers of what they can: none of it may reach ours. */
const APPLICATIONS = [
  ['postgres', {}],
  ['postgres', { parseInt8: true }],
  ['mariadb', {}],
  ['mysql', {}],
  ['mariadb', { supportBigNumbers: false, bigNumberStrings: false }],
  ['mariadb', { supportBigNumbers: true, bigNumberStrings: false }],
] as const;

describe.each(APPLICATIONS)('%s, with %j', (kind, driver) => {
  describeWith(kind, 'numbers past 2^53', () => {
    let harness: Harness;
    let application: DataSource;
    beforeEach(async () => {
      harness = await createHarness(kind, {
        buckets: 2,
        onPublished: 'archive',
        pollInterval: 20,
        retry: { initial: 20, max: 20 },
      });
      application = await new DataSource({ ...harness.database.options, ...driver } as never).initialize();
      const numbered =
        kind === 'postgres'
          ? ['ready.seq', 'parked.parked_id']
          : ['ready.seq', 'parked.parked_id', 'archive.archive_id'];
      for (const name of numbered) {
        const [table, column] = name.split('.') as [string, string];
        await harness.dataSource.query(
          kind === 'postgres'
            ? `alter table outbox_${table} alter column ${column} restart with ${START}`
            : `alter table outbox_${table} auto_increment = ${START}`,
        );
      }
      await harness.dataSource.query(`update outbox_leases set epoch = ${START}`);
    });
    afterEach(async () => {
      await application?.destroy();
      await harness?.close();
    });

    it('F1: ten messages through every state: each is settled itself, and by nobody else’s number', async () => {
      const transport = new ScriptedTransport();
      let refuses = true;
      transport.behave = ({ payload, attempts }) => {
        const name = String(payload);
        if (name === 'retried') return attempts < 3 ? rejected(false) : PUBLISHED;
        return name === 'revived' && refuses ? rejected(true) : name === 'gone' ? rejected(true) : PUBLISHED;
      };
      const names = ['hot', 'hotter', 'retried', 'behind', 'revived', 'waits', 'gone', 'follows', 'later', 'never'];
      const keys = ['h', 'h', 'r', 'r', 'd', 'd', 'g', 'g', null, null];
      const delay = (name: string) => ({ later: 50, never: 3_600_000 })[name] ?? null;
      const rows = names.map((name, n) =>
        newMessage(
          { payload: Buffer.from(name), key: keys[n] as string | null, delay: delay(name), dedupKey: `key:${name}` },
          2,
        ),
      );
      const id = (name: string): string => rows[names.indexOf(name)]?.id as string;
      const insert = () =>
        application.transaction((manager) =>
          harness.store.writer.insert(transactionExecutor(manager.queryRunner as never), rows),
        );
      await insert();
      const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { dataSource: application });
      await dispatcher.start();
      await hooks.until('dead', 2);
      await until(async () => (await harness.count('archive')) === 5); // settled, not only published
      // What was enqueued before is known by its key, settled or not.
      expect([...(await insert()).duplicates.values()]).toEqual(rows.map((row) => row.id));
      const [stats] = await harness.store.admin.stats();
      expect(stats).toMatchObject({ ready: 0, scheduled: 1, blocked: 2, dead: 2, blockedKeys: 2 });

      refuses = false;
      const one = (name: string) => ({ ids: [id(name)] });
      expect(await operatorOf(harness.store).requeue(one('revived'))).toMatchObject({ changed: [id('revived')] });
      expect(await operatorOf(harness.store).discard(one('gone'))).toMatchObject({ changed: [id('gone')] });
      expect(await operatorOf(harness.store).cancel(one('never'))).toMatchObject({ changed: [id('never')] });
      expect(await operatorOf(harness.store).cancel(one('hot'))).toMatchObject({ notFound: [id('hot')] });
      dispatcher.nudge();
      await until(async () => (await harness.count('archive')) === 8);
      expect([await harness.count('ready'), await harness.count('parked')]).toEqual([0, 0]);
      expect([...transport.texts].sort()).toEqual(names.filter((name) => name !== 'gone' && name !== 'never').sort());
      for (const [first, second] of [
        ['hot', 'hotter'],
        ['retried', 'behind'],
        ['revived', 'waits'],
      ] as const)
        expect(transport.texts.indexOf(first)).toBeLessThan(transport.texts.indexOf(second));
      const seq = kind === 'postgres' ? 'seq::text' : 'cast(seq as char)';
      const found = (await harness.dataSource.query(`select id, ${seq} as seq from outbox_messages`)) as {
        id: string;
        seq: string;
      }[];
      const hot = found.filter((row) => row.id.toLowerCase() !== id('later'));
      expect(new Set(hot.map((row) => row.seq)).size).toBe(7);
      expect(hot.some((row) => BigInt(row.seq) > 2n ** 53n)).toBe(true);
      expect((await harness.store.cleaner.clean('archive', 0, 100)).removed).toBe(8);
    });
  });
});
