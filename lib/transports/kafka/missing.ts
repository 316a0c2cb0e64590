import type { Admin } from 'kafkajs';
import type { ExpectedMessages, MissingDestination } from '../transport.js';
import { Deadline } from '../deadline.js';
import { blameFor, describe, MISSING, timedOut } from '../kafkajs/blame.js';
import type { SocketGuard } from '../kafkajs/client.js';
import { topicName } from '../kafkajs/names.js';

/** An admin client of its own, neither connected nor closed. */
export interface KafkaAsker {
  readonly admin: Admin;
  readonly guard: SocketGuard;
}

/** Asks for the metadata of topics, which makes none, through a client of its own. */
export async function findMissing(
  open: () => KafkaAsker,
  prefix: string,
  expected: readonly ExpectedMessages[],
  signal: AbortSignal,
): Promise<MissingDestination[]> {
  const topics = [...new Set(expected.map(({ topic }) => prefix + topic))].slice(0, MOST);
  if (topics.length === 0) return [];
  return askBeside(open, signal, async ({ admin, guard }) => {
    await admin.fetchTopicMetadata({ topics });
    return [...guard.wrong].flatMap(([topic, error]) => {
      const verdict = blameFor(error, 1, 1);
      // A right that is refused (29) and a leader that is being chosen (5) are no missing topic.
      if (verdict.name !== MISSING) return [];
      return [{ destination: topicName(topic), error: describe(verdict, error, [topic]) }];
    });
  });
}

/** Connects the client for one question, and ends it with that. @throws also where the signal comes first */
export async function askBeside<Answer>(
  open: () => KafkaAsker,
  signal: AbortSignal,
  ask: (asker: KafkaAsker) => Promise<Answer>,
): Promise<Answer> {
  const deadline = new Deadline(signal);
  const asker = open();
  const { admin, guard } = asker;
  deadline.onPass(() => guard.kill());
  try {
    await admin.connect();
    const answer = await ask(asker);
    if (deadline.passed) throw timedOut(guard.silence);
    return answer;
  } catch (error) {
    throw deadline.passed ? timedOut(guard.silence) : error;
  } finally {
    await admin.disconnect().catch(() => undefined);
    guard.kill();
    deadline.dispose();
  }
}

/** Topics of one question. */
const MOST = 1_000;
