import { OutboxModule, OutboxService, type Finding, type OutboxOptions } from '../../../lib/index.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { Applications, build, quiet, typeOrm } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { diagnose, problem, problems } from '../../support/doctor.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

describeWith(['postgres', 'kafka'], 'what the doctor learns of Kafka', () => {
  const topics = new TestTopics();
  let database: TestDatabase;
  const applications = new Applications();
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    await topics.start();
  });
  afterEach(() => applications.close());
  afterAll(async () => {
    await topics.stop();
    await database.drop();
  });
  const start = (transport: Partial<KafkaOptions> = {}, options: Partial<OutboxOptions> = {}) => {
    const definition = kafka({ client: kafkaConfig(), ...transport });
    const all = quiet({ transports: { default: definition }, relay: false, ...options });
    return applications.start(build([typeOrm(database), OutboxModule.forRoot(all)]));
  };
  const enqueue = (app: Awaited<ReturnType<typeof start>>, topic: string) =>
    app.get(OutboxService).enqueueOutsideTransaction({ type: 'order.placed', topic, key: 'k', payload: {} }, {});
  /** Of this topic, among those of other messages that wait. */
  const of = (topic: string) => (finding: Finding) => finding.evidence['topic'] === topic;
  /** The controller says that it is done before the broker has heard of it. */
  const isGone = (app: Awaited<ReturnType<typeof start>>, code: string, topic: string, options = {}) =>
    until(async () => {
      const found = problems(await diagnose(app, options), code).filter(of(topic));
      return found.every(({ severity }) => severity === 'note');
    });

  it('a topic that is missing, until it is made; nothing is made by the question', async () => {
    const topic = TestTopics.name();
    const app = await start();
    await enqueue(app, topic);
    const finding = await problem(app, 'destination-missing', {}, of(topic));
    expect(finding).toMatchObject({ severity: 'error', evidence: { partitions: 0 } });
    expect(finding.fix).toMatch(`kafka-topics.sh --create --topic ${topic}`);
    expect(await topics.exists(topic)).toBe(false);
    await topics.create(1, {}, topic);
    await isGone(app, 'destination-missing', topic);
    const [one] = problems(await diagnose(app), 'topic').filter(of(topic));
    expect(one).toMatchObject({ severity: 'note', evidence: { replicas: 1, inSyncReplicas: 1, minInSyncReplicas: 1 } });
  });

  it('a retention that is shorter than the outage that the tables allow, by the time of the enqueue', async () => {
    const topic = await topics.create(1, { 'retention.ms': '60000' });
    const app = await start({ timestamp: 'enqueued' }, { retry: { maxAge: '2h' } });
    await enqueue(app, topic);
    const finding = await problem(app, 'topic', {}, (each) => of(topic)(each) && each.severity === 'warning');
    expect(finding).toMatchObject({ evidence: { retentionMs: 60_000, outageMs: 7_200_000 } });
    expect(finding.text).toMatch('keeps messages for 1m by the time of their enqueue');
    await topics.configure(topic, 'retention.ms', String(86_400_000));
    await isGone(app, 'topic', topic);
    await applications.close();
    await topics.configure(topic, 'retention.ms', '60000');
    await isGone(await start({}, { retry: { maxAge: '2h' } }), 'topic', topic);
  });

  it('a topic that takes smaller messages than are sent, and one that keeps only the last of a key', async () => {
    const topic = await topics.create(1, { 'max.message.bytes': '20000', 'cleanup.policy': 'compact' });
    const app = await start();
    await enqueue(app, topic);
    const finding = await problem(app, 'topic', {}, (each) => of(topic)(each) && each.severity === 'warning');
    expect(finding).toMatchObject({ evidence: { maxMessageBytes: 20_000, cleanupPolicy: 'compact' } });
    const notes = problems(await diagnose(app), 'topic').filter(of(topic));
    expect(notes.some(({ text }) => text.startsWith('cleanup.policy'))).toBe(true);
    await topics.configure(topic, 'max.message.bytes', '1048588');
    await isGone(app, 'topic', topic);
  });

  it('a cluster that is away', async () => {
    const app = await start({ client: { clientId: 'nobody', brokers: ['127.0.0.1:1'] } });
    const finding = await problem(app, 'broker');
    expect(finding).toMatchObject({ severity: 'error', evidence: { kind: 'kafka', broker: '127.0.0.1:1' } });
  });
});
