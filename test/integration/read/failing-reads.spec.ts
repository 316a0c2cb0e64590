import type { OutboxDispatcher, OutboxHealth } from '../../../lib/index.js';
import { TABLE_NAMES } from '../../../lib/store/names.js';
import { randomBytes } from 'node:crypto';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { allow, refuse } from '../../support/refusing-database.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const TABLES = TABLE_NAMES.map((name) => `outbox_${name}`);
const text = (value: string) => Buffer.from(value);
/** Heartbeats, and looks at the others, that succeed while something fails, at least. */
const BEATS = 4;

describe.each(DATABASES)('a relay on %s whose heartbeats succeed', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    let user: string;
    let own: DataSource;
    let beats: number;

    beforeEach(async () => {
      harness = await createHarness(kind, { pollInterval: 50, buckets: 4, coordination: 'buckets' });
      user = `outbox_${randomBytes(6).toString('hex')}`;
      await query(
        `${kind === 'postgres' ? 'create role' : 'create user'} ${user} ${kind === 'postgres' ? 'login password' : 'identified by'} '${user}'`,
      );
      for (const table of TABLES) await query(`grant select, insert, update, delete on ${table} to ${user}`);
      if (kind === 'postgres') await query(`grant usage on all sequences in schema public to ${user}`);
      const url = new URL(harness.database.url);
      url.username = url.password = user;
      own = await new DataSource({ ...harness.database.options, url: url.href } as DataSourceOptions).initialize();
    });
    afterEach(async () => {
      await own.destroy();
      if (kind === 'postgres') await query(`drop owned by ${user}`);
      await query(`drop ${kind === 'postgres' ? 'role' : 'user'} ${user}`);
      await harness.close();
    });

    const query = (sql: string): Promise<unknown> => harness.dataSource.query(sql);
    /** A relay with a login of its own. */
    function relay(): { dispatcher: OutboxDispatcher; transport: ScriptedTransport } {
      const transport = new ScriptedTransport();
      const { dispatcher } = harness.relay(
        { default: transport },
        { lease: 20_000 },
        {
          dataSource: own,
          wrapStore: (store) => {
            const counted = async <T>(answer: Promise<T>): Promise<T> => {
              await answer;
              beats += 1;
              return answer;
            };
            return wrapped(store, {
              beat: (...given) => counted(store.leases.beat(...given)),
              living: () => counted(store.leases.living()),
            });
          },
        },
      );
      beats = 0;
      return { dispatcher, transport };
    }
    /** As another process sees it that may count. */
    const health = (dispatcher: OutboxDispatcher): Promise<OutboxHealth> => harness.health(dispatcher);
    const select = (grant: 'grant' | 'revoke', table: string): Promise<unknown> =>
      query(`${grant} select on ${table} ${grant === 'grant' ? 'to' : 'from'} ${user}`);
    /** Nobody sees another verdict while the heart goes on. */
    async function throughout(dispatcher: OutboxDispatcher, status: string, reason: RegExp): Promise<void> {
      await until(async () => (await health(dispatcher)).status === status);
      const from = beats;
      const seen: OutboxHealth[] = [];
      await until(async () => {
        dispatcher.lookAtLeases(); // a heartbeat, or a look
        seen.push(await health(dispatcher));
        return beats >= from + BEATS;
      });
      for (const each of seen) {
        expect(each.status).toBe(status);
        expect(each.reasons).toMatchObject([{ text: expect.stringMatching(reason), since: expect.any(Date) }]);
      }
      const times = seen.map(({ relay: { storeDownFor } }) => storeDownFor ?? -1);
      expect(times).toEqual([...times].sort((a, b) => a - b)); // it is one failure, not many
    }

    it('E14: is down and says since when, while it may not read what is ready', async () => {
      const { dispatcher, transport } = relay();
      await harness.enqueue([{ payload: text('before') }]);
      await dispatcher.start();
      await transport.until(() => transport.published.length === 1);
      await until(async () => (await harness.count('ready')) === 0);
      await select('revoke', 'outbox_ready');
      await throughout(dispatcher, 'down', /^Reading the ready messages of 'default' fails: .*denied.*outbox_ready/);
      await select('grant', 'outbox_ready');
      await harness.enqueue([{ payload: text('after') }]);
      await transport.until(() => transport.published.length === 2);
      await until(async () => (await health(dispatcher)).status === 'up');
      expect(dispatcher.status()).toMatchObject({ storeDownFor: null, failing: [] });
    });

    it('E14: is degraded and says since when, while what was published cannot be written down', async () => {
      const { dispatcher, transport } = relay();
      await dispatcher.start();
      await refuse(harness, 'delete', 'outbox_ready');
      await harness.enqueue([{ payload: text('kept') }]);
      await transport.until(() => transport.published.length === 1);
      await throughout(dispatcher, 'degraded', /^Recording what was published of 'default' fails: .*not today/);
      await allow(harness, 'outbox_ready');
      await until(async () => (await harness.count('ready')) === 0);
      await until(async () => (await health(dispatcher)).status === 'up');
      expect(transport.published).toHaveLength(1);
    });
  });
});
