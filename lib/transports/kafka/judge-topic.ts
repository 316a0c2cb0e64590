import { found, isOk, type Evidence, type Finding, type Severity } from '../diagnosis.js';
import { durationText } from '../../time/duration.js';
import { topicName } from '../kafkajs/names.js';
import type { RecordSettings } from './records.js';

/** What Kafka says of one topic. */
export interface TopicFacts {
  readonly topic: string;
  /** 0: there is no such topic. */
  readonly partitions: number;
  /** Partitions without a leader. */
  readonly leaderless: number;
  /** Of the partition with the fewest. */
  readonly replicas: number;
  readonly inSync: number;
  /** `null`: this login may not see it. */
  readonly config: Readonly<Record<string, string>> | null;
}
export interface TopicSurroundings extends Pick<RecordSettings, 'timestamp' | 'maxBytes'> {
  readonly transport: string;
  readonly brokers: number;
  /** Milliseconds; `null`: not known. */
  readonly outage: number | null;
}
type Says = (
  severity: Exclude<Severity, 'ok'>,
  text: string,
  consequence: string,
  fix: string,
  code?: string,
) => Finding;

/** Pure. */
export function judgeTopic(facts: TopicFacts, around: TopicSurroundings): Finding[] {
  const { topic, partitions, replicas, inSync, config } = facts;
  const evidence = evidenceOf(facts, around);
  const name = topicName(topic);
  const says: Says = (severity, text, consequence, fix, code = 'topic') =>
    found(code, severity, { text, evidence }, consequence, fix);
  if (partitions === 0) {
    const fix = `kafka-topics.sh --create --topic ${topic} --partitions … --replication-factor …`;
    const text = `Kafka has no ${name} for messages of '${around.transport}'.`;
    return [says('error', text, 'Its messages wait; no attempt is charged.', fix, 'destination-missing')];
  }
  const problems = [
    ...replication(facts, around, says),
    ...retention(facts, around, says),
    ...size(facts, around, says),
  ];
  if (config === null)
    problems.push(
      says(
        'note',
        `Kafka does not show the settings of ${name} to this login.`,
        'Its retention and its replicas are not known.',
        'Give the login the right DescribeConfigs on the topic.',
      ),
    );
  return problems.length > 0
    ? problems
    : [isOk('topic', `${name} takes messages: replicas ${replicas}, in sync ${inSync}.`, evidence)];
}

function evidenceOf(
  { topic, partitions, leaderless, replicas, inSync, config }: TopicFacts,
  around: TopicSurroundings,
): Evidence {
  const number = (name: string): number | null => (config?.[name] === undefined ? null : Number(config[name]));
  return {
    transport: around.transport,
    topic,
    brokers: around.brokers,
    partitions,
    partitionsWithoutLeader: leaderless,
    replicas,
    inSyncReplicas: inSync,
    minInSyncReplicas: number('min.insync.replicas'),
    retentionMs: number('retention.ms'),
    retentionBytes: number('retention.bytes'),
    cleanupPolicy: config?.['cleanup.policy'] ?? null,
    maxMessageBytes: number('max.message.bytes'),
    outageMs: around.outage,
  };
}

const alter = (topic: string, setting: string): string =>
  `kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config ${setting}`;

/** The worst of what is wrong with replicas comes first, and is said alone. */
function replication(facts: TopicFacts, { brokers }: TopicSurroundings, says: Says): Finding[] {
  const { topic, leaderless, replicas, inSync, config } = facts;
  const name = topicName(topic);
  const least = Number(config?.['min.insync.replicas'] ?? 1);
  if (leaderless > 0) return [says('error', `${name} has partitions without a leader: ${leaderless}.`, ...NO_LEADER)];
  if (inSync < least) return [tooFew(facts, least, says)];
  if (replicas === 1 && brokers > 1) return [says('warning', `${name} has one replica.`, ...ONE_OF_SEVERAL)];
  if (replicas === 1) return [says('note', `${name} has one replica, as the cluster has one broker.`, ...ONE_BROKER)];
  if (config !== null && least === 1)
    return [says('warning', `min.insync.replicas of ${name} is 1.`, CONFIRMS_ALONE, oneLess(facts))];
  if (least < replicas || config === null) return [];
  const text = `min.insync.replicas of ${name} is ${least}, and it has as many replicas.`;
  return [says('warning', text, NONE_MAY_FAIL, oneLess(facts))];
}

const oneLess = ({ topic, replicas }: TopicFacts): string => alter(topic, `min.insync.replicas=${replicas - 1}`);

function tooFew({ topic, replicas, inSync }: TopicFacts, least: number, says: Says): Finding {
  const text = `Of ${topicName(topic)} too few replicas are in sync: ${inSync}, and min.insync.replicas is ${least}.`;
  const fix =
    replicas < least
      ? `${alter(topic, `min.insync.replicas=${replicas}`)}, or give the topic more replicas.`
      : 'Bring the brokers of the other replicas back.';
  return says('error', text, 'Kafka refuses every message for it: they wait.', fix);
}

/** What follows, and what to do. */
type Outcome = readonly [consequence: string, fix: string];
const NO_LEADER: Outcome = ['Messages for them wait.', 'Bring the brokers of these partitions back.'];
const ONE_OF_SEVERAL: Outcome = [
  'Messages are lost with the disk of one broker, and wait while it is away.',
  'Give the topic three replicas: kafka-reassign-partitions.sh.',
];
const ONE_BROKER: Outcome = [
  'Messages are lost with the disk of the broker.',
  'Run three brokers, with three replicas and min.insync.replicas=2.',
];
const CONFIRMS_ALONE = 'While other replicas are away the leader confirms alone: messages are lost with its disk.';
const NONE_MAY_FAIL = 'While one broker is away Kafka refuses every message for it: they wait.';

/** By the time of the enqueue what waited in an outage is that much older when it arrives. */
function retention({ topic, config }: TopicFacts, { timestamp, outage }: TopicSurroundings, says: Says): Finding[] {
  if (config === null) return [];
  const name = topicName(topic);
  const kept = Number(config['retention.ms'] ?? -1);
  const deletes = (config['cleanup.policy'] ?? 'delete').includes('delete');
  const isOld = timestamp === 'enqueued' && config['message.timestamp.type'] !== 'LogAppendTime';
  const found: Finding[] = [];
  if (deletes && kept >= 0 && isOld && (outage === null || kept < outage)) {
    const budget = outage === null ? 'an outage that is not known' : `an outage of ${durationText(Math.round(outage))}`;
    const text = `${name} keeps messages for ${durationText(kept)} by the time of their enqueue; the tables keep them through ${budget}.`;
    const fix = `${alter(topic, 'retention.ms=…')} above the outage, or leave timestamp: 'enqueued' out.`;
    found.push(
      says(outage === null ? 'note' : 'warning', text, 'What waited longer is removed as soon as it arrives.', fix),
    );
  }
  if (!deletes)
    found.push(
      says(
        'note',
        `cleanup.policy of ${name} is ${config['cleanup.policy']}.`,
        'Of each key Kafka keeps the last message: a consumer that is late does not get the others.',
        alter(topic, 'cleanup.policy=delete'),
      ),
    );
  return found;
}

function size({ topic, config }: TopicFacts, { maxBytes }: TopicSurroundings, says: Says): Finding[] {
  const most = Number(config?.['max.message.bytes'] ?? Infinity);
  if (most >= maxBytes) return [];
  const text = `max.message.bytes of ${topicName(topic)} is ${most}, and kafka() sends up to ${maxBytes} at once.`;
  const fix = `${alter(topic, `max.message.bytes=${maxBytes}`)}, or maxMessageBytes: ${most} of kafka().`;
  return [says('warning', text, 'Kafka refuses larger requests, and a message that is larger by itself dies.', fix)];
}
