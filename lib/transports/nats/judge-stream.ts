import { durationText } from '../../time/duration.js';
import { found, isOk, type Evidence, type Finding, type Severity } from '../diagnosis.js';
import type { ServerInfo } from './client.js';
import type { StreamFacts } from './streams.js';

export interface Surroundings {
  readonly transport: string;
  /** Milliseconds for which messages may wait; `null`: not known. */
  readonly outage: number | null;
  readonly deduplicate: boolean;
  readonly server: Pick<ServerInfo, 'cluster'>;
}
type Judgement = readonly [
  code: string,
  severity: Exclude<Severity, 'ok'>,
  text: string,
  consequence: string,
  fix: string,
];
type Judge = (facts: StreamFacts, around: Surroundings) => Judgement | undefined;

/** Pure. */
export function judgeStream(facts: StreamFacts, around: Surroundings): Finding[] {
  const { config, state } = facts;
  const evidence: Evidence = {
    transport: around.transport,
    stream: config.name,
    storage: config.storage,
    replicas: config.num_replicas,
    retention: config.retention,
    discard: config.discard,
    duplicateWindowMs: windowOf(facts),
    outageMs: around.outage,
    messages: state.messages,
    consumers: state.consumer_count,
  };
  const problems = JUDGES.flatMap((judge) => {
    const judgement = judge(facts, around);
    if (judgement === undefined) return [];
    const [code, severity, text, consequence, fix] = judgement;
    return [found(code, severity, { text: `The stream ${config.name} ${text}.`, evidence }, consequence, fix)];
  });
  const text = `The stream ${config.name} takes messages: ${config.storage}, replicas ${config.num_replicas}.`;
  return problems.length > 0 ? problems : [isOk('stream', text, evidence)];
}

const edit = ({ config }: StreamFacts, flags: string): string => `nats stream edit ${config.name} ${flags}`;
const windowOf = ({ config }: StreamFacts): number => config.duplicate_window / 1e6;

const JUDGES: readonly Judge[] = [
  ({ config }) =>
    config.sealed === true
      ? ['stream-sealed', 'error', 'is sealed', 'Its messages wait.', 'Give its subjects to another stream.']
      : undefined,
  (facts, { outage, deduplicate }) => {
    const window = windowOf(facts);
    if (!deduplicate || window >= Math.max(TAKE_OVER, outage ?? 0)) return undefined;
    return [
      'duplicate-window',
      window < TAKE_OVER ? 'warning' : 'note',
      `knows a message again for ${durationText(window)}`,
      'What is sent again after that, because its answer or its relay was lost, is stored twice. Consumers deduplicate by the header id.',
      `${edit(facts, '--dupe-window=…')}: ${durationText(TAKE_OVER)} at least, and better the longest outage.`,
    ];
  },
  ({ config, state }) =>
    config.retention === 'interest' && state.consumer_count === 0
      ? [
          'no-interest',
          'warning',
          'keeps only what consumers wait for, and has no consumer',
          'It says that it has a message, and keeps nothing of it.',
          'Create the consumers before the first message, or make a stream with --retention=limits.',
        ]
      : undefined,
  ({ config }) =>
    config.storage === 'memory'
      ? [
          'memory-storage',
          'warning',
          'is in memory',
          'What was published is lost when its servers restart.',
          'Make another stream with --storage=file.',
        ]
      : undefined,
  (facts, { server }) =>
    facts.config.num_replicas === 1 && server.cluster !== undefined
      ? [
          'one-replica',
          'warning',
          'has one replica, in a cluster',
          'Messages wait while its server is away, and are lost with its disk.',
          edit(facts, '--replicas=3'),
        ]
      : undefined,
  (facts) =>
    facts.config.discard === 'old' && (facts.config.max_msgs > 0 || facts.config.max_bytes > 0)
      ? [
          'drops-old',
          'note',
          'drops its oldest messages when it is full',
          'A consumer that is late does not get them.',
          `${edit(facts, '--discard=new')}: a full stream refuses messages then, and they wait in the outbox.`,
        ]
      : undefined,
];

/** Milliseconds in which a message is sent again where nothing else is broken: a publish, a lease, and some tries. */
const TAKE_OVER = 120_000;
