import { freePort } from './free-port.mjs';
import { kafkaVersion, startKafkaBroker } from './kafka-broker.mjs';

const IMAGE = 'apache/kafka:4.1.1';
const INTERNAL_PORT = 29_092;

export const kafka = {
  name: 'kafka',
  variable: 'OUTBOX_TEST_KAFKA_BROKERS',
  local: '127.0.0.1:9092',

  /** Asks for the cluster's description, as a client. */
  async probe(brokers) {
    const { default: kafkajs } = await import('kafkajs');
    const client = new kafkajs.Kafka({
      clientId: 'nestjs-outbox-probe',
      brokers: brokers.split(','),
      connectionTimeout: 15_000,
      requestTimeout: 15_000,
      retry: { retries: 0 },
      logLevel: kafkajs.logLevel.NOTHING,
    });
    const admin = client.admin();
    try {
      await admin.connect();
      const cluster = await admin.describeCluster();
      if (cluster.brokers.length === 0) throw new Error('the cluster has no broker');
    } finally {
      await admin.disconnect().catch(() => {});
    }
  },

  // A client is told where the broker is by the broker, so the port outside must be known before the start.
  async container({ GenericContainer, Wait }) {
    const port = await freePort();
    const container = await new GenericContainer(IMAGE)
      .withExposedPorts({ container: INTERNAL_PORT, host: port })
      .withEnvironment({
        KAFKA_NODE_ID: '1',
        KAFKA_PROCESS_ROLES: 'broker,controller',
        KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:29093',
        KAFKA_LISTENERS: `PLAINTEXT://:${INTERNAL_PORT},CONTROLLER://:29093`,
        KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
        KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
        KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      })
      .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
      .start();
    return { url: `127.0.0.1:${port}`, stop: () => container.stop() };
  },

  own: startKafkaBroker,

  /** Of our own. Kafka's protocol does not tell a client which release it talks to. */
  version: () => kafkaVersion(),
};
