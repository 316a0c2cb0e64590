/** Enqueues, relays and cleans in another time zone than its database and the test. Started by `integration/time-zones.spec.ts`. */
import { DataSource } from 'typeorm';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { isoTime } from '../../lib/transports/envelope.js';
import { PUBLISHED } from '../../lib/index.js';
import { outboxEntities, type OutboxMessageRow } from '../../lib/data-layers/typeorm/index.js';
import { createHarness, newMessage, ScriptedTransport } from '../support/relay.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';
import { operatorOf } from '../support/operator.js';

const { kind, instants } = JSON.parse(process.env['TIME'] as string) as {
  kind: DatabaseKind;
  instants: string[];
};
const utc = (instant: string): string => instant.replace('T', ' ').replace('Z', '');

/** By the database's clock. */
const fromNow = (hours: number): string =>
  kind === 'postgres' ? `clock_timestamp() + interval '${hours} hours'` : `utc_timestamp(6) + interval ${hours} hour`;

async function main(): Promise<object> {
  const harness = await createHarness(kind, {
    onPublished: 'archive',
    pollInterval: 20,
    retry: { initial: 300, max: 300 },
  });
  const { dataSource, store, database } = harness;
  const [name] = new URL(database.url).pathname.slice(1).split('?');
  // The server's own date style stays: node-postgres reads ISO only.
  if (kind === 'postgres') await dataSource.query(`alter database ${name} set timezone = 'Asia/Tokyo'`);
  // A driver that reads and writes local times, in a session nine hours ahead.
  const application = await new DataSource({
    ...database.options,
    timezone: 'local',
    poolSize: 1,
  } as never).initialize();
  const runner = application.createQueryRunner();
  if (kind !== 'postgres') await runner.query(`set session time_zone = '+09:00'`);
  const enqueue = async (messages: Parameters<typeof newMessage>[0][]): Promise<void> => {
    await runner.startTransaction();
    await store.writer.insert(
      transactionExecutor(runner),
      messages.map((message) => newMessage(message)),
    );
    await runner.commitTransaction();
  };
  try {
    await enqueue(instants.map((instant) => ({ payload: Buffer.from(instant), deliverAt: new Date(instant) })));
    const reader = await new DataSource({ ...database.options, entities: outboxEntities() } as never).initialize();
    const due = (await reader.getRepository<OutboxMessageRow>('outbox_messages').find()).map((row) =>
      row.dueAt?.toISOString(),
    );
    await reader.destroy();
    await operatorOf(store).cancel({ state: 'scheduled' });

    await enqueue([{}]);
    const age = async (created: string): Promise<number | null | undefined> => {
      await dataSource.query(`update outbox_ready set created_at = ${created}`);
      return (await store.admin.stats())[0]?.oldestReadyAge;
    };
    const aged = { ahead: await age(fromNow(1)), hour: await age(fromNow(-1)) };
    await dataSource.query('delete from outbox_ready');

    const transport = new ScriptedTransport();
    const at = new Map<string, number[]>();
    transport.behave = ({ payload, attempts }) => {
      const what = String(payload);
      at.set(what, [...(at.get(what) ?? []), Date.now()]);
      return what === 'retried' && attempts === 0 ? { ok: false, blame: 'message', error: new Error('no') } : PUBLISHED;
    };
    await enqueue(instants.map((instant) => ({ payload: Buffer.from(instant), topic: instant })));
    for (const instant of instants)
      await dataSource.query(
        kind === 'postgres'
          ? `update outbox_ready set created_at = timestamptz '${instant}' where topic = '${instant}'`
          : `update outbox_ready set created_at = '${utc(instant)}' where topic = '${instant}'`,
      );
    const enqueuedAt = Date.now();
    await enqueue([
      { payload: Buffer.from('now') },
      { payload: Buffer.from('delayed'), delay: 400 },
      { payload: Buffer.from('retried') },
    ]);
    const relays = await new DataSource({ ...database.options, timezone: 'local' } as never).initialize();
    await harness.relay({ default: transport }, {}, { dataSource: relays, random: () => 0.999 }).dispatcher.start();
    await until(() => transport.published.length === instants.length + 3, 60_000);
    await until(async () => (await harness.count('archive')) === instants.length + 3);
    const created = transport.published
      .filter(({ topic }) => topic !== 'orders')
      .map(({ topic, createdAt, createdText }) => [topic, createdAt.toISOString(), isoTime(createdText)]);
    const kept = (await store.cleaner.clean('archive', 3_600_000, 100)).removed; // nothing is an hour old: it was published just now
    const cleaned = (await store.cleaner.clean('archive', 0, 100)).removed;
    await relays.destroy();
    const [first, second] = at.get('retried') as [number, number];
    return {
      offset: new Date(instants[0] as string).getTimezoneOffset(),
      due,
      created,
      age: aged,
      kept,
      cleaned,
      delayed: (at.get('delayed')?.[0] as number) - enqueuedAt,
      backoff: second - first,
    };
  } finally {
    await runner.release();
    await application.destroy();
    await harness.close();
  }
}

main().then(
  (result) => process.send?.(result, () => process.disconnect()),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
