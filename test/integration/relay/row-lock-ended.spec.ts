import { once } from 'node:events';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { gate } from '../../support/transport-relay.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

/** Connects when the test lets it, whether that was broken off or not. */
class SlowToConnect extends ScriptedTransport {
  readonly connected = gate();
  override connect(): Promise<void> {
    this.signals.emit('connect');
    return this.connected.opened;
  }
}

for (const kind of DATABASES)
  describeWith(kind, `row locks whose session ends, on ${kind}`, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    /** As an administrator, a failover or a limit of the server's does it. */
    async function endSessionsWithLocks(): Promise<number> {
      const { dataSource } = harness;
      if (kind === 'postgres')
        return (
          await dataSource.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()
              and application_name = 'nestjs-outbox' and state = 'idle in transaction'`,
          )
        ).length;
      const sessions: { id: string }[] = await dataSource.query(
        `select t.trx_mysql_thread_id as id from information_schema.innodb_trx t
          join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database()`,
      );
      for (const { id } of sessions) await dataSource.query(`kill ${id}`);
      return sessions.length;
    }

    it('what was cancelled since then is not published, by a transport that was connecting', async () => {
      harness = await createHarness(kind, {
        ordering: 'none',
        coordination: 'rowLock',
        lease: '30m',
        publishTimeout: '10m', // no connect is given up, and no session ended, by anybody but the test
      });
      const [cancelled] = (await harness.enqueue([{ delay: 0 }])) as [string];
      const transport = new SlowToConnect();
      const { dispatcher, hooks, store } = harness.relay({ default: transport });
      const connecting = once(transport.signals, 'connect', { signal: AbortSignal.timeout(60_000) });
      await dispatcher.start();
      await connecting;
      // Once its rows are locked. InnoDB's list of transactions is made anew 100 ms after the last look at it.
      await until(async () => (await endSessionsWithLocks()) === 1, 60_000, 150);
      expect((await operatorOf(store).cancel({ ids: [cancelled] })).changed).toEqual([cancelled]);
      transport.connected.open();

      const [next] = await harness.enqueue([{}]);
      await until(async () => (await harness.count('ready')) === 0);
      await transport.until(() => transport.published.some(({ id }) => id === next));
      expect(transport.attempted.map(({ id }) => id)).toEqual([next]);
      expect(hooks.of('error')).toMatchObject([{ operation: 'fetch' }]);
      expect([hooks.of('failed'), hooks.of('circuitOpened')]).toEqual([[], []]);
    });
  });
