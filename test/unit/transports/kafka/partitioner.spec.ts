import { randomBytes } from 'node:crypto';
import { Partitioners, type Message, type PartitionMetadata } from 'kafkajs';
import { byKey, murmur2, pinning } from '../../../../lib/transports/kafka/partitioner.js';
import type { KafkaRecord } from '../../../../lib/transports/kafka/records.js';

const partitions = (count: number, leaderless: number[] = []): PartitionMetadata[] =>
  Array.from({ length: count }, (_, partitionId) => ({
    partitionErrorCode: 0,
    partitionId,
    leader: leaderless.includes(partitionId) ? -1 : 1,
    replicas: [1],
    isr: [1],
  }));
const ask = (choose: ReturnType<typeof byKey>, message: Message, partitionMetadata = partitions(7)) =>
  choose({ topic: 't', partitionMetadata, message });

describe('Kafka partitioner', () => {
  it('hashes like the Java client', () => {
    // Vectors of Apache Kafka's own test of its murmur2.
    expect([murmur2('21'), murmur2('foobar'), murmur2('a-little-bit-long-string')]).toEqual([
      -973932308, -790332482, -985981536,
    ]);
  });

  it('agrees with kafkajs for any key', () => {
    const [ours, theirs] = [byKey(), Partitioners.DefaultPartitioner()];
    for (let n = 0; n < 2000; n += 1) {
      const key =
        n % 2 ? randomBytes(n % 23) : randomBytes(n % 23).toString('base64') + 'é👋'.slice(0, n % 4 === 0 ? 3 : 0);
      expect(ask(ours, { key, value: null })).toBe(ask(theirs, { key, value: null }));
    }
  });

  it('spreads keyless records over the partitions that have a leader', () => {
    const choose = byKey();
    const seen = Array.from({ length: 12 }, () => ask(choose, { key: null, value: null }, partitions(4, [2])));
    expect([0, 1, 2, 3].map((p) => seen.filter((s) => s === p).length)).toEqual([4, 4, 0, 4]);
    expect(ask(choose, { value: null }, partitions(2, [0, 1]))).toBeLessThan(2);
  });

  it('keeps the first choice on the record, whatever the next answer would be', () => {
    let calls = 0;
    const choose = pinning(() => () => calls++)();
    const record: KafkaRecord = { key: null, value: null };
    expect([ask(choose, record), ask(choose, record), record.partition, calls]).toEqual([0, 0, 0, 1]);
  });

  it('notes a fixed partition that does not exist', () => {
    const choose = pinning(byKey)();
    const [known, unknown]: KafkaRecord[] = [
      { value: null, partition: 6 },
      { value: null, partition: 7 },
    ];
    expect([ask(choose, known!), ask(choose, unknown!)]).toEqual([6, 7]);
    expect([known!.nowhere, unknown!.nowhere]).toEqual([false, true]);
  });
});
