import type { Admin } from 'kafkajs';
import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion } from '../transport.js';
import { MISSING, blameFor } from '../kafkajs/blame.js';
import type { SocketGuard } from '../kafkajs/client.js';
import { topicName } from '../kafkajs/names.js';
import { askBeside, type KafkaAsker } from './missing.js';
import { judgeTopic, type TopicFacts } from './judge-topic.js';
import type { RecordSettings } from './records.js';

/** Asks a cluster about itself and the topics, by questions that make nothing. */
export async function diagnose(
  open: () => KafkaAsker,
  settings: Pick<RecordSettings, 'topicPrefix' | 'timestamp' | 'maxBytes'>,
  { transport, expected, outage }: BrokerQuestion,
  signal: AbortSignal,
): Promise<Finding[]> {
  const topics = [...new Set(expected.map(({ topic }) => settings.topicPrefix + topic))].slice(0, MOST);
  return askBeside(open, signal, async ({ admin, guard }) => {
    const { brokers, clusterId } = await admin.describeCluster();
    const facts = topics.length === 0 ? [] : await look({ admin, guard }, topics);
    const servers = brokers.map(({ host, port }) => `${host}:${port}`).join(', ');
    const evidence = { transport, clusterId, brokers: brokers.length, servers };
    return [
      isOk('broker', `Kafka answers to '${transport}': ${servers}.`, evidence),
      ...facts.flatMap((topic) => judgeTopic(topic, { transport, outage, brokers: brokers.length, ...settings })),
      ...unknown(transport, guard),
    ];
  });
}

async function look({ admin, guard }: KafkaAsker, topics: readonly string[]): Promise<TopicFacts[]> {
  const metadata = await admin.fetchTopicMetadata({ topics: [...topics] });
  const there = metadata.topics.filter(({ name, partitions }) => !guard.wrong.has(name) && partitions.length > 0);
  const configs = await configsOf(
    admin,
    there.map(({ name }) => name),
  );
  const missing = [...guard.wrong].flatMap(([topic, error]) =>
    nameOf(error) === MISSING ? [missingTopic(topic)] : [],
  );
  return [
    ...missing,
    ...there.map(({ name, partitions }) => ({
      topic: name,
      partitions: partitions.length,
      leaderless: partitions.filter(({ leader }) => leader < 0).length,
      replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
      inSync: Math.min(...partitions.map(({ isr }) => isr.length)),
      config: configs?.get(name) ?? null,
    })),
  ];
}

const nameOf = (error: unknown): string => blameFor(error, 1, 1).name;

const missingTopic = (topic: string): TopicFacts => ({
  topic,
  partitions: 0,
  leaderless: 0,
  replicas: 0,
  inSync: 0,
  config: null,
});

/** @returns `undefined`: this login may not see them */
async function configsOf(
  admin: Admin,
  topics: readonly string[],
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>> | undefined> {
  if (topics.length === 0) return new Map();
  const resources = topics.map((name) => ({ type: TOPIC, name, configNames: [...CONFIGS] }));
  const answer = await admin.describeConfigs({ includeSynonyms: false, resources }).catch(() => undefined);
  return (
    answer &&
    new Map(
      answer.resources.map(({ resourceName, configEntries }) => [
        resourceName,
        Object.fromEntries(configEntries.map(({ configName, configValue }) => [configName, configValue])),
      ]),
    )
  );
}

/** Topics that are neither there nor missing: denied, or without a leader for now. */
function unknown(transport: string, { wrong }: SocketGuard): Finding[] {
  return [...wrong].flatMap(([topic, error]) => {
    const why = nameOf(error);
    if (why === MISSING) return [];
    return [
      found(
        'not-asked',
        'warning',
        { text: `Kafka does not tell about ${topicName(topic)}: ${why}.`, evidence: { transport, topic, why } },
        'Whether messages get there is not known.',
        'Give the login the right Describe on the topic, and look at the brokers of its partitions.',
      ),
    ];
  });
}

const CONFIGS = [
  'min.insync.replicas',
  'retention.ms',
  'retention.bytes',
  'cleanup.policy',
  'max.message.bytes',
  'message.timestamp.type',
] as const;
/** `ConfigResourceTypes.TOPIC`, which kafkajs exports in a way that ES modules do not see. */
const TOPIC = 2;
/** Topics of one question. */
const MOST = 200;
