import { order, type useDebezium } from '../support/debezium-run.js';
import { until } from '../support/until.js';
import { payloads, TEXT } from './debezium.contract.js';

/** What keeps Kafka Connect from going on, whatever database it reads. */
export function describeDebeziumStops(start: ReturnType<typeof useDebezium>): void {
  it('Z7: killed and started again, routes all that was committed meanwhile, in order; some of it twice', async () => {
    const run = await start();
    const send = async (from: number): Promise<void> => {
      for (let n = from; n < from + 50; n++) await run.enqueue({ key: 'k', payload: { n } });
    };
    const sending = send(0);
    await until(async () => (await run.countRouted()) > 5);
    await run.connect.kill();
    await sending;
    await send(50);
    await run.connect.restart();
    await run.capture();
    const { first } = await run.routedOnce(100);
    expect(first).toEqual(Array.from({ length: 100 }, (_, n) => `{"n":${n}}`));
  });

  it('Z8: stops at a message that the broker refuses; what is behind it may be out already, and comes again behind it', async () => {
    const run = await start();
    const { name } = run.source.connector;
    await run.configureTopic('max.message.bytes', '20000');
    const sizes = [1, 30_000, 2];
    for (const size of sizes) await run.enqueue({ key: 'k', payload: 'x'.repeat(size), ...TEXT });
    await until(async () => (await run.connect.status(name)).state === 'FAILED');
    expect((await run.connect.status(name)).trace).toContain('RecordTooLargeException');
    await run.enqueue({ key: 'k', payload: 'xxx', ...TEXT });
    await run.configureTopic('max.message.bytes', '1000000');
    await until(async () => {
      await run.connect.resume(name);
      return (await run.countRouted()) >= 4;
    });
    const { all } = await run.routedOnce(4);
    expect(all.map(({ length }) => length).slice(-3)).toEqual([30_000, 2, 3]);
  });

  it('Z10: waits for a topic that is missing and may not be made; nothing else is routed meanwhile', async () => {
    const run = await start({ capture: false });
    const none = {
      'topic.creation.default.partitions': undefined,
      'topic.creation.default.replication.factor': undefined,
    };
    await run.capture({ ...none, 'heartbeat.interval.ms': '0' });
    await run.outbox.enqueueOutsideTransaction({ ...order({ key: 'k', payload: 'first', ...TEXT }), topic: 'missing' });
    await run.enqueue({ key: 'other', payload: 'second', ...TEXT });
    await until(async () => (await run.connect.log()).includes('missing=UNKNOWN_TOPIC_OR_PARTITION'));
    expect(await run.countRouted()).toBe(0);
    expect(await run.connect.status(run.source.connector.name)).toMatchObject({ state: 'RUNNING' });
    await run.createTopic('missing');
    expect(payloads(await run.routed(1))).toEqual(['second']);
  });
}
