import { randomBytes } from 'node:crypto';
import { connectAsync, type IClientOptions, type IPublishPacket, type MqttClient } from 'mqtt';
import type { MessageHeaders } from '../../lib/index.js';
import type { ReceivedMessage } from './publish.js';

export interface MqttMessage extends ReceivedMessage {
  readonly topic: string;
  readonly retain: boolean;
  readonly properties: NonNullable<IPublishPacket['properties']>;
}

export const MQTT_5: IClientOptions = { protocolVersion: 5, reconnectPeriod: 0 };

/** An independent view of a broker: a connection of its own, with subscriptions. */
export class MqttObserver {
  readonly prefix = `outbox-test-${randomBytes(5).toString('hex')}`;
  private topics = 0;
  private readonly messages = new Map<string, MqttMessage[]>();
  private readonly arrivals = new Set<() => void>();

  private constructor(readonly client: MqttClient) {
    client.on('message', (topic, payload, packet) => {
      const found = this.messages.get(topic) ?? [];
      this.messages.set(topic, found);
      found.push(seen(topic, payload, packet));
      for (const arrived of this.arrivals) arrived();
    });
  }

  static async connect(url: string): Promise<MqttObserver> {
    return new MqttObserver(await connectAsync(url, { ...MQTT_5 }));
  }

  unusedTopic(): string {
    this.topics += 1;
    return `${this.prefix}/t${this.topics}`;
  }

  /** With a subscriber. */
  async topic(): Promise<string> {
    const topic = this.unusedTopic();
    await this.client.subscribeAsync(topic, { qos: 1 });
    return topic;
  }

  /** What arrived so far, once it is `count` or more; fails when nothing arrived for `timeout`. */
  async received(topic: string, count: number, timeout = 60_000): Promise<readonly MqttMessage[]> {
    const found = (): MqttMessage[] => this.messages.get(topic) ?? [];
    if (found().length >= count) return found();
    await new Promise<void>((resolve, reject) => {
      const done = (): void => {
        clearTimeout(timer);
        this.arrivals.delete(arrived);
      };
      const timer = setTimeout(() => {
        done();
        reject(new Error(`${found().length} of ${count} messages and ${timeout} ms without another`));
      }, timeout);
      const arrived = (): void => {
        timer.refresh();
        if (found().length < count) return;
        done();
        resolve();
      };
      this.arrivals.add(arrived);
    });
    return found();
  }

  /** How many arrived: a message of this connection comes behind all that the broker took before. */
  async total(topic: string): Promise<number> {
    const marker = randomBytes(8).toString('hex');
    await this.client.publishAsync(topic, '', { qos: 1, properties: { userProperties: { id: marker } } });
    for (let count = 1; ; count += 1) {
      const at = (await this.received(topic, count)).findIndex(({ id }) => id === marker);
      if (at >= 0) return this.messages.get(topic)!.splice(at, 1).length - 1 + at;
    }
  }

  async close(): Promise<void> {
    await this.client.endAsync(true);
  }
}

function seen(topic: string, payload: Buffer, { retain, properties = {} }: IPublishPacket): MqttMessage {
  const headers = { ...properties.userProperties } as MessageHeaders;
  return {
    id: headers['id'] as string,
    payload: headers['tombstone'] === 'true' ? null : payload,
    key: (headers['key'] as string | undefined) ?? null,
    headers,
    topic,
    retain,
    properties,
  };
}
