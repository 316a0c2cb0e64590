import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Admin, KafkaJSProtocolError } from 'kafkajs';
import type { TestTopics } from './kafka.js';
import { until } from './until.js';

const REGISTRATION = 62;
const HEARTBEAT = 63;
/** A ghost supports whatever the cluster has switched on. */
const FEATURES = ['metadata', 'kraft', 'transaction', 'group', 'eligible.leader.replicas', 'share', 'streams'];
const NO_TAGS = Buffer.from([0]);

/**
 * A broker in the controller's books only, registered by the protocol that brokers use. What one real broker cannot have, such
 * as replicas that are out of sync, partitions without a leader or with another one, it can have with a ghost. Its addresses
 * are those of the real one, where clients ask it for what it does not have.
 */
export class GhostBroker {
  private constructor(
    private readonly controller: string,
    readonly id: number,
    private readonly epoch: bigint,
  ) {}

  /** @param listeners addresses by name, with the number of the protocol */
  static async register(
    controller: string,
    clusterId: string,
    listeners: readonly (readonly [name: string, address: string, protocol: number])[],
    id = 2,
  ): Promise<GhostBroker> {
    const endpoints = listeners.map(([name, address, protocol]) => {
      // Another name of the host: kafkajs takes brokers with one address for one, and hangs up on it when one of them goes.
      return [text(name), text('localhost'), uint16(Number(address.split(':')[1])), int(2, protocol), NO_TAGS];
    });
    const features = FEATURES.map((name) => [text(`${name}.version`), int(2, 0), int(2, 99), NO_TAGS]);
    const answer = await ask(controller, REGISTRATION, 4, [
      ...[int(4, id), text(clusterId), randomBytes(16)],
      ...[length(endpoints.length), ...endpoints.flat(), length(features.length), ...features.flat()],
      // No rack, no migration; one folder; no epoch of before.
      ...[Buffer.from([0, 0]), length(1), randomBytes(16), int64(-1n), NO_TAGS],
    ]);
    return new GhostBroker(controller, id, answer.readBigInt64BE(2));
  }

  /** Active brokers may lead partitions; one that is not heard of for some seconds is active no more. */
  async setActive(active: boolean): Promise<void> {
    const everything = int64(1n << 40n);
    const flags = Buffer.from([active ? 0 : 1, 0]); // wants to be fenced, wants to shut down
    await ask(this.controller, HEARTBEAT, 0, [int(4, this.id), int64(this.epoch), everything, flags, NO_TAGS]);
  }

  /** A topic that it leads, for the seconds that it stays active. */
  async lead(topics: TestTopics): Promise<string> {
    await this.setActive(true);
    return topics.createOn([this.id], { 'unclean.leader.election.enable': 'true' });
  }

  /** A topic that it led, alone. */
  async orphan(topics: TestTopics): Promise<string> {
    const topic = await this.lead(topics);
    await this.setActive(false);
    await until(() => isOrphan(topic, topics.admin));
    return topic;
  }

  /** To the broker that is there. */
  async giveAway(topic: string, admin: Admin): Promise<void> {
    const partitionAssignment = [{ partition: 0, replicas: [1] }];
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] });
    // Somebody else is elected when a leader goes.
    await this.setActive(true);
    await this.setActive(false);
  }
}

export async function isOrphan(topic: string, admin: Admin): Promise<boolean> {
  try {
    await admin.fetchTopicMetadata({ topics: [topic] });
    return false;
  } catch (error) {
    const { type, cause } = error as KafkaJSProtocolError & { cause?: { type?: string } };
    return (cause?.type ?? type) === 'LEADER_NOT_AVAILABLE';
  }
}

/** The answer from its error code on, which is 0. */
async function ask(address: string, key: number, version: number, fields: readonly Buffer[]): Promise<Buffer> {
  const body = Buffer.concat([int(2, key), int(2, version), int(4, 1), int(2, -1), NO_TAGS, ...fields]);
  const [host, port] = address.split(':');
  const socket = connect(Number(port), host);
  try {
    socket.write(Buffer.concat([int(4, body.length), body]));
    const [answer] = (await once(socket, 'data', { signal: AbortSignal.timeout(60_000) })) as [Buffer];
    // Length, correlation id, tags, throttle time.
    const result = answer.subarray(13);
    if (result.readInt16BE(0) !== 0) throw new Error(`the controller answers with code ${result.readInt16BE(0)}`);
    return result;
  } finally {
    socket.destroy();
  }
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}
function int(size: 2 | 4, value: number): Buffer {
  const bytes = Buffer.alloc(size);
  bytes.writeIntBE(value, 0, size);
  return bytes;
}
function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}
/** Of an array or a string of less than 127. */
function length(count: number): Buffer {
  return Buffer.from([count + 1]);
}
function text(value: string): Buffer {
  return Buffer.concat([length(value.length), Buffer.from(value)]);
}
