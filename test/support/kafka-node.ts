import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  logLevel,
  ResourcePatternTypes,
  type Admin,
  type KafkaConfig,
} from 'kafkajs';

interface Broker {
  readonly url: string;
  readonly saslUrl: string;
  limit(clientId: string, bytes: number): Promise<void>;
  kill(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}
type Pairs = Readonly<Record<string, string>>;
/** What a user may do, and with what: a name, the beginning of one before a `*`, or `*` for all. */
export type Right = readonly [
  operation: 'DESCRIBE' | 'WRITE' | 'IDEMPOTENT_WRITE',
  resource: 'TOPIC' | 'TRANSACTIONAL_ID' | 'CLUSTER',
  name: string,
];

/** An Apache Kafka of its own, whose users have the rights that a test gives them. Takes some five seconds to start. */
export class KafkaNode {
  private constructor(private readonly broker: Broker) {}

  /** Its jars come with mvn. */
  static get isInstalled(): boolean {
    const folders = (process.env['PATH'] ?? '').split(delimiter);
    return ['java', 'mvn'].every((program) => folders.some((folder) => existsSync(join(folder, program))));
  }

  /** Without users nobody logs in, and everybody may do everything. */
  static async start(users?: Pairs, settings?: Pairs): Promise<KafkaNode> {
    const { startKafkaBroker } = (await import('../../tools/services/kafka-broker.mjs' as string)) as {
      startKafkaBroker(options: { users?: Pairs | undefined; settings?: Pairs | undefined }): Promise<Broker>;
    };
    return new KafkaNode(await startKafkaBroker({ users, settings }));
  }

  /** For whoever may do everything. */
  config(): KafkaConfig {
    const retry = { initialRetryTime: 20, maxRetryTime: 100, retries: 3 };
    return { clientId: 'outbox-test', brokers: [this.broker.url], logLevel: logLevel.NOTHING, retry };
  }

  /** For users, with a login. */
  get saslUrl(): string {
    return this.broker.saslUrl;
  }

  async allow(admin: Admin, user: string, rights: readonly Right[]): Promise<void> {
    const acl = rights.map(([operation, resource, name]) => ({
      principal: `User:${user}`,
      host: '*',
      permissionType: AclPermissionTypes.ALLOW,
      operation: AclOperationTypes[operation],
      resourceType: AclResourceTypes[resource],
      ...(name.length > 1 && name.endsWith('*')
        ? { resourceName: name.slice(0, -1), resourcePatternType: ResourcePatternTypes.PREFIXED }
        : { resourceName: name, resourcePatternType: ResourcePatternTypes.LITERAL }),
    }));
    await admin.createAcls({ acl });
  }

  /** Bytes a second that a client of this name may send. */
  limit(clientId: string, bytes: number): Promise<void> {
    return this.broker.limit(clientId, bytes);
  }

  /** SIGKILL: no goodbye, nothing flushed. */
  kill(): Promise<void> {
    return this.broker.kill();
  }
  /** With the same data on the same ports; resolves when it answers. */
  restart(): Promise<void> {
    return this.broker.restart();
  }

  stop(): Promise<void> {
    return this.broker.stop();
  }
}
