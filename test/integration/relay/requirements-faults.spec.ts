import { DataSource } from 'typeorm';
import { PUBLISHED, type PublishResult } from '../../../lib/transports/transport.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { allow, refuse } from '../../support/refusing-database.js';
import { createHarness, newMessage, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

const text = (value: string | number) => Buffer.from(String(value));
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe.each(DATABASES)('faults around the relay on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    const cleanUp: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const release of cleanUp.splice(0).reverse()) await release();
      await harness?.close();
    });

    /** A relay whose way to the database can be cut. */
    async function proxied(transport: ScriptedTransport) {
      const proxy = await TcpProxy.start(harness.database.url);
      const url = new URL(harness.database.url);
      url.host = `${proxy.host}:${proxy.port}`;
      const dataSource = await new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
      const relay = harness.relay({ default: transport }, {}, { dataSource });
      cleanUp.push(
        async () => (await dataSource.destroy(), await proxy.close()),
        () => relay.dispatcher.stop(),
        async () => (await proxy.accept(), proxy.heal()),
      );
      const goAway = (): void => {
        void proxy.refuse();
        proxy.cut();
      };
      return { ...relay, goAway, comeBack: () => proxy.accept() };
    }

    /** An open transaction with one message in it. */
    async function begin(message: Parameters<typeof newMessage>[0]) {
      const runner = harness.dataSource.createQueryRunner();
      await runner.startTransaction('READ COMMITTED');
      await harness.store.writer.insert(transactionExecutor(runner), [newMessage(message)]);
      return {
        commit: () => runner.commitTransaction().finally(() => runner.release()),
        rollback: () => runner.rollbackTransaction().finally(() => runner.release()),
      };
    }

    const payloads = (transport: ScriptedTransport): string[] => [...transport.texts].sort();

    it('writes a success again when that failed, and publishes nothing twice', async () => {
      harness = await createHarness(kind);
      const transport = new ScriptedTransport();
      await refuse(harness, 'delete', 'outbox_ready');
      await harness.enqueue(Array.from({ length: 30 }, (_, i) => ({ key: `k${i % 3}`, payload: text(i) })));
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await hooks.until('error', 3);
      expect(hooks.of('error')[0]).toMatchObject({ operation: 'settle' });
      await allow(harness, 'outbox_ready');
      await until(async () => (await harness.count('ready')) === 0);
      expect(transport.attempted).toHaveLength(30);
      expect(transport.published).toHaveLength(30);
    });

    it('B6: publishes nothing twice when the database goes away between the confirm and the settle', async () => {
      harness = await createHarness(kind);
      const transport = new ScriptedTransport();
      const { dispatcher, hooks, goAway, comeBack } = await proxied(transport);
      let away = 0;
      transport.behave = () => {
        if (away++ === 0) goAway();
        return PUBLISHED;
      };
      await harness.enqueue(Array.from({ length: 30 }, (_, i) => ({ key: `k${i % 3}`, payload: text(i) })));
      await dispatcher.start();
      await until(() => hooks.of('error').some(({ operation }) => operation === 'settle'));
      await comeBack();
      await until(async () => (await harness.count('ready')) === 0);
      expect(payloads(transport)).toEqual(Array.from({ length: 30 }, (_, i) => String(i)).sort());
      expect(transport.attempted).toHaveLength(30);
    });

    it('survives an outage of the database: tells it, asks seldom, goes on by itself', async () => {
      harness = await createHarness(kind, { pollInterval: 100, lease: '5m' });
      const transport = new ScriptedTransport();
      const { dispatcher, hooks, goAway, comeBack } = await proxied(transport);
      await dispatcher.start();
      await until(() => dispatcher.status().transports[0]?.buckets.length === 32);
      goAway();
      const operations = (): Set<string> => new Set(hooks.of('error').map(({ operation }) => operation));
      await until(() => (dispatcher.status().storeDownFor ?? 0) > 2_500 && operations().size === 3);
      expect(dispatcher.status().running).toBe(true);
      const failures = hooks.of('error');
      expect(operations()).toEqual(new Set(['fetch', 'lease', 'take']));
      expect(failures.length).toBeLessThan(30); // three loops, pauses that grow with the outage
      await harness.enqueue([{ payload: text('meanwhile') }]);
      await comeBack();
      await transport.until(() => transport.published.length === 1);
      await until(() => dispatcher.status().storeDownFor === null); // each operation tells of itself
    });

    it('E2: survives the end of its sessions, again and again, in the middle of its work', async () => {
      harness = await createHarness(kind, { batchSize: 20 });
      const transport = new ScriptedTransport();
      const { dispatcher } = harness.relay({ default: transport });
      const total = 1_000;
      await harness.enqueue(Array.from({ length: total }, (_, i) => ({ key: `k${i % 200}`, payload: text(i) })));
      await dispatcher.start();
      for (let round = 1; round <= 4; round += 1) {
        await until(() => transport.published.length >= round * 100);
        await endOtherSessions(harness);
      }
      await transport.until(() => transport.published.length >= total, 60_000);
      await until(async () => (await harness.count('ready')) === 0);
      expect(new Set(transport.texts).size).toBe(total);
      expect(transport.attempted).toHaveLength(total);
    });

    it('finds what commits late, in whatever order, and nothing that rolls back', async () => {
      harness = await createHarness(kind, { pollInterval: 20 });
      const transport = new ScriptedTransport();
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      const sequential: string[] = [];
      for (let round = 0; round < 6; round += 1) {
        const open = [];
        for (let i = 0; i < 5; i += 1)
          open.push(await begin({ key: `late ${i % 2}`, bucket: 3, payload: text(`late ${round}.${i}`) }));
        // Sequential writers of one key between them: their order is a promise.
        for (const transaction of open.reverse()) {
          const name = `in order ${sequential.length + 1000}`;
          sequential.push(name);
          await harness.enqueue([{ key: 'sequential', bucket: 3, payload: text(name) }]);
          await transport.until(() => transport.texts.includes(name));
          await (open.indexOf(transaction) === 2 ? transaction.rollback() : transaction.commit());
        }
      }
      const expected = 6 * 4 + sequential.length;
      await transport.until(() => transport.published.length >= expected);
      await dispatcher.drain({ timeout: 60_000 });
      expect(transport.texts.filter((each) => each.startsWith('in order'))).toEqual(sequential);
      expect(new Set(transport.texts).size).toBe(expected);
      expect(transport.texts.some((each) => each.endsWith('.2'))).toBe(false);
    });

    it('waits for no endless transaction', async () => {
      harness = await createHarness(kind, { pollInterval: 20 });
      const transport = new ScriptedTransport();
      const endless = await begin({ bucket: 3, payload: text('endless') });
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      for (let i = 0; i < 20; i += 1) {
        await harness.enqueue([{ bucket: 3, payload: text(i) }]);
        dispatcher.nudge();
        await transport.until(() => transport.texts.includes(String(i)));
      }
      await endless.commit();
      await transport.until(() => transport.published.length === 21);
      expect(new Set(transport.texts).size).toBe(21);
    });

    // On PostgreSQL a read waits for a settle that waits for such a lock: docs/requirements.md, S4-24.
    it('publishes on while somebody locks its rows, and settles when that ends', async () => {
      harness = await createHarness(kind, { pollInterval: 20 });
      const transport = new ScriptedTransport();
      const [locked] = await harness.enqueue([{ bucket: 3, payload: text('locked') }]);
      const runner = harness.dataSource.createQueryRunner();
      await runner.startTransaction('READ COMMITTED');
      await runner.query(`select id from outbox_ready where transport = 0 and bucket = 3 for update`);
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      for (let i = 0; i < 20; i += 1) {
        await harness.enqueue([{ bucket: 4, payload: text(i) }]);
        dispatcher.nudge();
        await transport.until(() => transport.texts.includes(String(i)));
      }
      await runner.rollbackTransaction();
      await runner.release();
      await until(async () => (await harness.count('ready')) === 0);
      expect(transport.attempted).toHaveLength(21);
      expect(transport.published.some(({ id }) => id === locked)).toBe(true);
    });

    it.each(['headers', 'options'])('finds a row whose %s nobody can read, and delivers the others', async (column) => {
      harness = await createHarness(kind, { pollInterval: 50, retry: { initial: 1, max: 5, maxAttempts: 3 } });
      const rows = Array.from({ length: 12 }, (_, i) => ({ payload: text(i) }));
      const [broken] = await harness.enqueue(rows);
      await harness.dataSource.query(`update outbox_ready set ${column} = 'canary, no JSON' where id = '${broken}'`);
      const transport = new ScriptedTransport();
      // A transport of somebody who read the contract: what cannot be encoded is the message's fault.
      transport.behave = (message) => {
        try {
          return message.headers && message.options ? PUBLISHED : rejected();
        } catch (error) {
          return { ok: false, blame: 'message', error };
        }
      };
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      expect(await hooks.until('dead')).toMatchObject({ id: broken, attempts: 3 });
      await until(() => transport.published.length === 11);
      await dispatcher.drain({ timeout: 60_000 });
      expect(transport.published).toHaveLength(11);
      expect(JSON.stringify(hooks.events)).not.toContain('canary');
    });
  });
});

async function endOtherSessions({ database, dataSource }: Harness): Promise<void> {
  if (database.kind === 'postgres') {
    await dataSource.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    );
    return;
  }
  const sessions = (await dataSource.query(
    `select id from information_schema.processlist where db = database() and id <> connection_id()`,
  )) as { id: string }[];
  for (const { id } of sessions) await dataSource.query(`kill ${id}`).catch(() => undefined);
}
