import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { setTimeout as pause } from 'node:timers/promises';
import { ROOT } from '../compile.js';
import { SEASONAL, TRANSPORTS } from '../settings.js';
import type { BrokerServer, WhenReadOut } from './broker.js';
import { OwnServer } from './own-server.js';

const POM = join(ROOT, 'tools', 'services', 'kafka-broker', 'pom.xml');
const PARTITIONS = 6;
/** Of the topic that takes no message of the workload: all of them are larger. */
const TINY = '90';
/** Records tell when the broker had them: the clocks of the relays go wrong. */
const BROKER_TIME = { name: 'message.timestamp.type', value: 'LogAppendTime' };

const SETTLED = 200;

interface KafkaBroker {
  readonly url: string;
  readonly pid: number;
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export const open = (): Promise<BrokerServer> => ChaosKafka.open();

/** Topics `alpha.orders` and `alpha.seasonal`, and of beta the same; to `alpha.nowhere` and `beta.nowhere` every message is too large. */
class ChaosKafka extends OwnServer implements BrokerServer {
  version = '';

  private constructor(private readonly broker: KafkaBroker) {
    super();
  }

  static async open(): Promise<ChaosKafka> {
    const { startKafkaBroker } = (await import('../../../tools/services/kafka-broker.mjs' as string)) as {
      startKafkaBroker(): Promise<KafkaBroker>;
    };
    const broker = new ChaosKafka(await startKafkaBroker());
    broker.version = /<kafka.version>([^<]+)</.exec(readFileSync(POM, 'utf8'))?.[1] ?? '';
    await broker.createTopics();
    return broker;
  }

  get port(): number {
    return Number(this.url.split(':')[1]);
  }
  get url(): string {
    return this.broker.url;
  }
  /** The broker tells its own address, so the relay's sockets are led to the proxy whatever the address. */
  urlThrough(): string {
    return this.url;
  }
  kill(): Promise<void> {
    return this.broker.kill();
  }
  protected bringUp(): Promise<void> {
    return this.broker.restart();
  }
  /** Frozen: it has the connections and answers nothing. */
  async stall(on: boolean): Promise<void> {
    process.kill(this.broker.pid, on ? 'SIGSTOP' : 'SIGCONT');
  }
  protected clear(): Promise<void> {
    return this.broker.stop();
  }

  async withdraw(transport: string, whenReadOut: WhenReadOut): Promise<void> {
    const topic = `${transport}.${SEASONAL}`;
    await this.asAdmin(async (admin) => {
      const isThere = async (): Promise<boolean> => (await admin.listTopics()).includes(topic);
      if (!(await isThere())) return;
      await whenReadOut(async () => {
        await admin.deleteTopics({ topics: [topic] });
        while (await isThere()) await pause(50);
        await pause(SETTLED); // who answers forgets it a moment before who writes
      });
    });
  }

  async putBack(transport: string): Promise<void> {
    const topic = `${transport}.${SEASONAL}`;
    await this.asAdmin(async (admin) => {
      if ((await admin.listTopics()).includes(topic)) return;
      await create(admin, [{ topic, numPartitions: PARTITIONS, configEntries: [BROKER_TIME] }]);
    });
  }

  private async createTopics(): Promise<void> {
    const topics = TRANSPORTS.flatMap((name) => [
      ...['orders', SEASONAL].map((topic) => ({
        topic: `${name}.${topic}`,
        numPartitions: PARTITIONS,
        configEntries: [BROKER_TIME],
      })),
      { topic: `${name}.nowhere`, numPartitions: 1, configEntries: [{ name: 'max.message.bytes', value: TINY }] },
    ]);
    await this.asAdmin((admin) => create(admin, topics));
  }

  private async asAdmin(work: (admin: Admin) => Promise<void>): Promise<void> {
    const admin = new Kafka({ brokers: [this.url], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    try {
      await work(admin);
    } finally {
      await admin.disconnect();
    }
  }
}

interface Setting {
  readonly name: string;
  readonly value: string;
}
interface Topic {
  readonly topic: string;
  readonly numPartitions: number;
  readonly configEntries: Setting[];
}

/** Resolves when each partition has a leader. */
async function create(admin: Admin, topics: Topic[]): Promise<void> {
  await admin.createTopics({ topics, waitForLeaders: false });
  for (const { topic, numPartitions } of topics) {
    const isLed = async (): Promise<boolean> => {
      const found = await admin.fetchTopicMetadata({ topics: [topic] }).catch(() => undefined);
      const known = found?.topics[0]?.partitions ?? [];
      return known.length === numPartitions && known.every(({ leader }) => leader >= 0);
    };
    while (!(await isLed())) await pause(50);
  }
}
