import type { ExpectedMessages, MissingDestination } from '../transport.js';
import { blameFor, describe, MISSING, timedOut } from '../kafkajs/blame.js';
import { Deadline } from '../deadline.js';
import type { KafkaProducer } from './producer.js';
import { topicName } from '../kafkajs/names.js';

/**
 * Asks for the metadata of topics, which makes none, through a client of its own.
 * @param open `undefined`: topics are made by the first message
 */
export async function findMissing(
  open: (() => KafkaProducer) | undefined,
  prefix: string,
  expected: readonly ExpectedMessages[],
  signal: AbortSignal,
): Promise<MissingDestination[]> {
  const topics = [...new Set(expected.map(({ topic }) => prefix + topic))].slice(0, MOST);
  if (open === undefined || topics.length === 0) return [];
  const deadline = new Deadline(signal);
  const producer = open();
  const release = producer.endAt(deadline);
  try {
    await producer.connect();
    if (deadline.passed) throw timedOut();
    const wrong = await producer.ask(topics);
    return topics.flatMap((topic) => {
      const error = wrong.get(topic);
      const verdict = blameFor(error, 1, 1);
      // A right that is refused (29) and a leader that is being chosen (5) are no missing topic.
      if (error === undefined || verdict.name !== MISSING) return [];
      return [{ destination: topicName(topic), error: describe(verdict, error, [topic]) }];
    });
  } finally {
    await producer.close();
    release();
    deadline.dispose();
  }
}

/** Topics of one question. */
const MOST = 1_000;
