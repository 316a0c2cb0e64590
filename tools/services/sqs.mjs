import { elasticMqVersion, startElasticMq } from './elasticmq.mjs';

const IMAGE = 'softwaremill/elasticmq-native:1.6.12';

export const sqs = {
  name: 'sqs',
  variable: 'OUTBOX_TEST_SQS_URL',
  local: 'http://127.0.0.1:9324',

  async probe(url) {
    const { SQSClient, ListQueuesCommand } = await import('@aws-sdk/client-sqs');
    const credentials = { accessKeyId: 'outbox', secretAccessKey: 'outbox' };
    const client = new SQSClient({ endpoint: url, region: 'elasticmq', credentials, maxAttempts: 1 });
    try {
      await client.send(new ListQueuesCommand({ MaxResults: 1 }), { abortSignal: AbortSignal.timeout(15_000) });
    } finally {
      client.destroy();
    }
  },

  async container({ GenericContainer, Wait }) {
    const container = await new GenericContainer(IMAGE)
      .withExposedPorts(9324)
      .withWaitStrategy(Wait.forLogMessage(/started in/))
      .start();
    return { url: `http://${container.getHost()}:${container.getMappedPort(9324)}`, stop: () => container.stop() };
  },

  own: () => startElasticMq(),

  /** Of our own. The protocol does not tell a client which server it talks to. */
  version: () => elasticMqVersion(),
};
