import { durationText } from '../../time/duration.js';
import { found, isOk, type Evidence, type Finding } from '../diagnosis.js';
import type { StreamFacts } from './streams.js';

export interface Surroundings {
  readonly transport: string;
  /** Milliseconds for which messages may wait; `null`: not known. */
  readonly outage: number | null;
  readonly deduplicate: boolean;
}

/** Pure. */
export function judgeStream({ config, state }: StreamFacts, around: Surroundings): Finding[] {
  const { transport, outage, deduplicate } = around;
  const { name, retention, storage, discard, num_replicas: replicas } = config;
  const window = config.duplicate_window / 1e6;
  const evidence: Evidence = {
    ...{ transport, stream: name, storage, replicas, retention, discard, duplicateWindowMs: window, outageMs: outage },
    ...{ messages: state.messages, consumers: state.consumer_count },
  };
  const problems: Finding[] = [];
  const says = (severity: 'note' | 'warning' | 'error', [code, text, consequence, fix]: Judgement): unknown =>
    problems.push(found(code, severity, { text: `The stream ${name} ${text}.`, evidence }, consequence, fix));
  if (deduplicate && window < Math.max(TAKE_OVER, outage ?? 0))
    says(window < TAKE_OVER ? 'warning' : 'note', shortWindow(name, window));
  if (retention === 'interest' && state.consumer_count === 0) says('warning', NO_INTEREST);
  if (storage === 'memory') says('warning', IN_MEMORY);
  if (config.no_ack === true) says('error', noAnswer(name));
  const ofSubjects = config.max_msgs_per_subject > 0 && config.discard_new_per_subject !== true;
  if (ofSubjects || (discard === 'old' && (config.max_msgs > 0 || config.max_bytes > 0))) says('note', dropsOld(name));
  const text = `The stream ${name} takes messages: ${storage}, replicas ${replicas}.`;
  return problems.length > 0 ? problems : [isOk('stream', text, evidence)];
}

type Judgement = readonly [code: string, text: string, consequence: string, fix: string];

const shortWindow = (name: string, window: number): Judgement => [
  'duplicate-window',
  `knows a message again for ${durationText(window)}`,
  'What is sent again later, because its answer or its relay was lost, is stored twice. Consumers deduplicate by the header id.',
  `nats stream edit ${name} --dupe-window=…: ${durationText(TAKE_OVER)} at least, and better the longest outage.`,
];
const NO_INTEREST: Judgement = [
  'no-interest',
  'keeps only what consumers wait for, and has no consumer',
  'It says that it has a message, and keeps nothing of it.',
  'Create the consumers before the first message, or make a stream with --retention=limits.',
];
const IN_MEMORY: Judgement = [
  'memory-storage',
  'is in memory',
  'What was published is lost when its servers restart.',
  'Make another stream with --storage=file.',
];
const noAnswer = (name: string): Judgement => [
  'no-answer',
  'answers nothing',
  'No message counts as published: each is sent again, and stored again once the window is over.',
  `nats stream edit ${name} --ack`,
];
const dropsOld = (name: string): Judgement => [
  'drops-old',
  'drops its oldest messages when it, or a subject of it, is full',
  'A consumer that is late does not get them.',
  `nats stream edit ${name} --discard=new, and --discard-per-subject if it has --max-msgs-per-subject: a full stream refuses messages then, and they wait in the outbox.`,
];

/** Milliseconds in which a message is sent again where nothing else is broken: a publish, a lease, and some tries. */
const TAKE_OVER = 120_000;
