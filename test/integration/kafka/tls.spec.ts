import { kafka } from '../../../lib/transports/kafka/index.js';
import { readdressed } from '../../support/kafka-address.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { describeTls } from '../../support/tls-contract.js';

/** Without a `socketFactory`: the sockets are those that the transport opens itself. */
describeWith('kafka', 'kafka() over TLS', () => {
  /** Between the front and the broker: the latter's answers send clients to the front's proxy. */
  let answers: TcpProxy;
  const topics = new TestTopics();

  describeTls({
    async start() {
      await topics.start();
      answers = await TcpProxy.start(requiredUrl('kafka').split(',')[0]!);
      return `${answers.host}:${answers.port}`;
    },
    async address({ port }) {
      const [own] = (await topics.admin.describeCluster()).brokers;
      answers.intercept = () => readdressed(own!, { host: 'localhost', port });
    },
    async stop() {
      await answers?.close();
      await topics.stop();
    },
    open({ host, port }, ca) {
      const client = { ...kafkaConfig(), brokers: [`${host}:${port}`], ssl: ca === undefined ? true : { ca: [ca] } };
      return kafka({ client }).create();
    },
    topic: () => topics.create(),
    total: (topic) => topics.total(topic),
    refusal: (code) => ({ message: expect.stringContaining(`(${code}`) }),
    // Of one request, which is not sent in part.
    flood: { count: 90, size: 10_000, most: 450_000 },
  });
});
