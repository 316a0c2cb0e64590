import type { ICustomPartitioner, Message, PartitionMetadata, PartitionerArgs } from 'kafkajs';
import type { KafkaRecord } from './records.js';

type Choose = (args: PartitionerArgs) => number;

/**
 * Keeps the first choice for a record on the record itself. kafkajs asks again on every internal retry; a record that
 * changed its partition between two attempts would leave a batch of another size under a sequence number that the
 * broker has already seen, and be dropped as a duplicate. Notes a fixed partition that does not exist: kafkajs would leave
 * its records out without a word.
 */
export function pinning(partitioner: ICustomPartitioner): ICustomPartitioner {
  return () => {
    const choose = partitioner();
    return (args) => {
      const record: KafkaRecord = args.message;
      if (record.partition === undefined) return (record.partition = choose(args));
      record.nowhere = !args.partitionMetadata.some(({ partitionId }) => partitionId === record.partition);
      return record.partition;
    };
  };
}

/**
 * By key as the Java client does it, so that other producers of the topic agree; round robin over the partitions with a
 * leader without a key. The same choice as kafkajs' default at a tenth of its cost (that one hashes with BigInt).
 */
export const byKey: ICustomPartitioner = () => {
  const next = new Map<string, number>();
  return (({ topic, partitionMetadata, message }) => {
    const { key } = message;
    if (key !== null && key !== undefined) return positive(murmur2(key)) % partitionMetadata.length;
    const candidates = withLeader(partitionMetadata);
    // Starts anywhere, so that many short-lived producers do not all begin with partition 0.
    const turn = next.get(topic) ?? Math.floor(Math.random() * candidates.length);
    next.set(topic, (turn + 1) % candidates.length);
    return candidates[turn % candidates.length]!.partitionId;
  }) as Choose;
};

function withLeader(partitions: PartitionMetadata[]): PartitionMetadata[] {
  if (partitions.every(({ leader }) => leader >= 0)) return partitions;
  const led = partitions.filter(({ leader }) => leader >= 0);
  return led.length > 0 ? led : partitions;
}

const positive = (hash: number): number => hash & 0x7fffffff;
const M = 0x5bd1e995;

/** MurmurHash2, 32 bits, with the seed of the Kafka clients. */
export function murmur2(key: NonNullable<Message['key']>): number {
  const data = typeof key === 'string' ? Buffer.from(key, 'utf8') : key;
  const length = data.length;
  const whole = length & ~3;
  let h = 0x9747b28c ^ length;
  for (let i = 0; i < whole; i += 4) {
    let k = Math.imul(data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24), M);
    k = Math.imul(k ^ (k >>> 24), M);
    h = Math.imul(h, M) ^ k;
  }
  const rest = length - whole;
  if (rest === 3) h ^= data[whole + 2]! << 16;
  if (rest >= 2) h ^= data[whole + 1]! << 8;
  if (rest >= 1) h = Math.imul(h ^ data[whole]!, M);
  h = Math.imul(h ^ (h >>> 13), M);
  return h ^ (h >>> 15);
}
