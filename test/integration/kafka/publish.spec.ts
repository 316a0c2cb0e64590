import { Kafka, Partitioners } from 'kafkajs';
import { keyText } from '../../../lib/message/key-bytes.js';
import type { KafkaTransport } from '../../../lib/transports/kafka/transport.js';
import { contractMessage, publish, expectAllOk } from '../../support/publish.js';
import { eventually, kafkaConfig, kafkaTransports, messages, text } from '../../support/kafka.js';
import { describeWith } from '../../support/services.js';

/** The partition that kafkajs 1.16.0 chose by default, of twelve; a Java client agrees on two of them. */
const OF_KAFKAJS_1 = { 'order-4711': 11, a: 7, abc: 11, Größe: 6, k1: 5, k5: 7, ['x'.repeat(250)]: 7 };
/** Of a queue of kafkajs. */
const hasNoTimer = (queue: { readonly throttleCheckTimeoutId?: unknown }) => queue.throttleCheckTimeoutId === null;

describeWith('kafka', 'kafka() publishes', () => {
  const { topics, open } = kafkaTransports();

  it('N10: with another producer before the numbers of a partition begin anew, which kafkajs has wrong', async () => {
    const topic = await topics.create();
    const transport = (await open({ producers: 1 })) as KafkaTransport;
    const [slot] = transport.slots.all;
    expectAllOk(await publish(transport, messages(topic, 1)));
    const { producer } = slot!;
    expectAllOk(await publish(transport, messages(topic, 1)));
    expect(slot!.producer === producer).toBe(true);
    producer!.stored = 2 ** 30 - 1;
    expectAllOk(await publish(transport, messages(topic, 1)));
    expectAllOk(await publish(transport, messages(topic, 1)));
    expect(slot!.producer === producer).toBe(false);
    expect(await topics.total(topic)).toBe(4);
  });

  it.each(['a configuration', 'a Kafka object'])(
    'N11: and rests: nothing is looked for in its queues (%s)',
    async (kind) => {
      const topic = await topics.create();
      const client = kind === 'a Kafka object' ? new Kafka(kafkaConfig()) : kafkaConfig();
      const transport = (await open({ client, producers: 1 })) as KafkaTransport;
      expectAllOk(await publish(transport, messages(topic, 2)));
      const { brokerPool } = transport.slots.all[0]!.producer!.guard.cluster as unknown as {
        brokerPool: { brokers: Record<string, { connectionPool: { pool: { requestQueue: object }[] } }> };
      };
      const queues = Object.values(brokerPool.brokers).flatMap(({ connectionPool }) => connectionPool.pool);
      expect(queues).not.toEqual([]);
      await eventually('no timer runs', () => queues.every(({ requestQueue }) => hasNoTimer(requestQueue)), 10_000);
    },
  );

  it('P-55: what waited for longer than the topic takes, where records bear the time of the broker', async () => {
    const topic = await topics.create(1, {
      'message.timestamp.type': 'LogAppendTime',
      'message.timestamp.before.max.ms': '3600000',
    });
    const begun = Date.now();
    const [old] = messages(topic, 1, () => ({ createdAt: new Date('2001-01-01') }));
    expectAllOk(await publish(await open(), [old!]));
    const [record] = await topics.read(topic, 1);
    expect(Number(record!.timestamp)).toBeGreaterThan(begun - 60_000);
    expect(text((record!.headers as Record<string, Buffer>)['time'])).toBe('2001-01-01T00:00:00.000Z');
  });

  it('N2: a backlog older than the topic keeps or takes is stored, and stays', async () => {
    const day = 86_400_000;
    const limits = { 'message.timestamp.before.max.ms': `${day}`, 'retention.ms': `${day}` };
    const topic = await topics.create(1, limits);
    const begun = Date.now();
    const backlog = messages(topic, 3, () => ({ createdAt: new Date(begun - 7 * day) }));
    expectAllOk(await publish(await open(), backlog));
    const records = await topics.read(topic, 3);
    for (const { timestamp } of records) expect(Number(timestamp)).toBeGreaterThan(begun - 60_000);
    const times = records.map(({ headers }) => String(headers?.['time']));
    expect(times).toEqual(backlog.map(({ createdAt }) => createdAt.toISOString()));
    const strict = await publish(await open({ timestamp: 'enqueued' }), backlog.slice(0, 1));
    expect(strict).toMatchObject([{ ok: false, blame: 'message' }]);
    expect(strict[0]).not.toHaveProperty('final', true);
  });

  it('a key of bytes that are no UTF-8, as another program wrote it into MariaDB', async () => {
    const topic = await topics.create(3);
    const bytes = [Buffer.of(0xff, 1), Buffer.of(0xfe, 1), Buffer.of(0xff, 1)];
    const results = await publish(
      await open(),
      bytes.map((key) => contractMessage({ topic, key: keyText(key) })),
    );
    expectAllOk(results);
    const records = await topics.read(topic, 3);
    expect(records.map(({ key }) => key!.toString('hex')).sort()).toEqual(['fe01', 'ff01', 'ff01']);
  });

  it('bytes, key, headers and time as they were enqueued, with the standard headers', async () => {
    const topic = await topics.create();
    const createdAt = new Date('2026-11-21T10:05:01.123Z');
    const bytes = Buffer.from([0, 255, 254, 10, 195, 40]);
    const sent = contractMessage({
      topic,
      key: 'Größe',
      payload: bytes,
      createdAt,
      type: 'order.placed',
      version: 3,
      contentType: 'application/x-bytes',
      headers: { traceparent: '00-a-b-01', many: ['one', Buffer.from([0xff]), 'three'], empty: '', id: 'forged' },
    });
    expectAllOk(await publish(await open({ headers: { origin: 'shop' }, timestamp: 'enqueued' }), [sent]));
    const [record] = await topics.read(topic, 1);
    expect(text(record!.key)).toBe('Größe');
    expect(record!.value!.equals(bytes)).toBe(true);
    expect(Number(record!.timestamp)).toBe(createdAt.getTime());
    const headers = record!.headers as Record<string, Buffer | Buffer[]>;
    expect((headers['many'] as Buffer[]).map((b) => b.toString('hex'))).toEqual(['6f6e65', 'ff', '7468726565']);
    expect(
      Object.fromEntries(
        Object.entries(headers)
          .filter(([name]) => name !== 'many')
          .map(([n, v]) => [n, text(v)]),
      ),
    ).toEqual({
      id: sent.id,
      type: 'order.placed',
      version: '3',
      'content-type': 'application/x-bytes',
      time: '2026-11-21T10:05:01.123Z',
      traceparent: '00-a-b-01',
      empty: '',
      origin: 'shop',
    });
  });

  it('spreads messages without a key over the partitions', async () => {
    const topic = await topics.create(4);
    expectAllOk(
      await publish(
        await open(),
        messages(topic, 1000, () => ({ key: null })),
      ),
    );
    expect(await topics.offsets(topic)).toEqual([250, 250, 250, 250]);
  });

  it('puts a key where kafkajs and the Java client put it', async () => {
    const topic = await topics.create(7);
    const batch = messages(topic, 200, (n) => ({ key: `käse-${n}` }));
    expectAllOk(await publish(await open(), batch));
    const choose = Partitioners.DefaultPartitioner();
    const partitionMetadata = Array.from({ length: 7 }, (_, partitionId) => ({
      partitionErrorCode: 0,
      partitionId,
      leader: 1,
      replicas: [1],
      isr: [1],
    }));
    const found = new Map((await topics.read(topic, 200)).map(({ key, partition }) => [text(key), partition]));
    for (const { key } of batch)
      expect(found.get(key)).toBe(choose({ topic, partitionMetadata, message: { key, value: null } }));
  });

  it("puts a key where kafkajs 1 put it, with `partitioner: 'legacy'`", async () => {
    const topic = await topics.create(12);
    const batch = Object.keys(OF_KAFKAJS_1).map((key) => contractMessage({ topic, key }));
    expectAllOk(await publish(await open({ partitioner: 'legacy' }), batch));
    const found = (await topics.read(topic, batch.length)).map(({ key, partition }) => [text(key), partition]);
    expect(Object.fromEntries(found)).toEqual(OF_KAFKAJS_1);
  });

  it('compressed with gzip', async () => {
    const topic = await topics.create();
    // Fits only when compressed: the broker checks the size of the compressed record batch.
    const strict = await topics.create(1, { 'max.message.bytes': '20000' });
    const batch = (to: string) => messages(to, 20, () => ({ payload: 'x'.repeat(5000) }));
    expectAllOk(await publish(await open({ compression: 'gzip' }), [...batch(topic), ...batch(strict)]));
    expect((await topics.read(topic, 20)).map(({ value }) => value!.length)).toEqual(
      Array.from({ length: 20 }, () => 5000),
    );
    expect((await publish(await open(), batch(strict))).every((r) => !r.ok && r.blame === 'collateral')).toBe(true);
  });

  it('C8: to a fixed partition with a time of its own; one that does not exist fails alone, and is found when it was added', async () => {
    const topic = await topics.create(3);
    const transport = await open();
    const at = (partition: number, key: string) =>
      contractMessage({ topic, key, options: { kafka: { partition, timestamp: 1_600_000_000_000 } } });
    const results = await publish(transport, [
      at(2, 'a'),
      at(3, 'b'),
      at(0, 'c'),
      contractMessage({ topic, key: null }),
    ]);
    expect(results.map((r) => (r.ok ? 'ok' : `${r.blame}${r.final ? ' final' : ''}`))).toEqual([
      'ok',
      'message',
      'ok',
      'ok',
    ]);
    expect((results[1] as { error: Error }).error.message).toBe(
      `'${topic}' has no such partition: \`options.kafka.partition\` of the message asks for 3.`,
    );
    const found = await topics.read(topic, 3);
    expect(found.find(({ key }) => text(key) === 'a')).toMatchObject({ partition: 2, timestamp: '1600000000000' });
    expect(found.some(({ key }) => text(key) === 'b')).toBe(false);
    await topics.addPartitions(topic, 4);
    expectAllOk(await publish(transport, [at(3, 'b')]));
    expect((await topics.offsets(topic))[3]).toBe(1);
  });

  it('more than a record batch may hold', async () => {
    const topic = await topics.create(1);
    expectAllOk(
      await publish(
        await open(),
        messages(topic, 40, () => ({ key: 'one', payload: 'x'.repeat(100_000) })),
      ),
    );
    expect(await topics.total(topic)).toBe(40);
  });

  it('uses an application’s Kafka object and leaves its own clients alone', async () => {
    const topic = await topics.create();
    const application = new Kafka(kafkaConfig());
    const theirs = application.producer();
    await theirs.connect();
    const transport = await open({ client: application });
    expectAllOk(await publish(transport, messages(topic, 2)));
    (transport.reset as () => void)();
    await transport.close!();
    expect(await theirs.send({ topic, messages: [{ value: 'still here' }] })).toHaveLength(1);
    await theirs.disconnect();
    expect(await topics.total(topic)).toBe(3);
  });
});
