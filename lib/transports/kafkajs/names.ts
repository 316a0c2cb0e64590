/** Topics that a text names, and characters of each. */
const NAMED = 3;
const NAME_LENGTH = 60;

/** As health names it. */
export const topicName = (topic: string): string => `topic "${topic}"`;

/** `'orders'`, or `'orders', 'bills' and 4 more`. */
export function topicList(topics: readonly string[]): string {
  const shown = topics
    .slice(0, NAMED)
    .map((topic) => `'${topic.slice(0, NAME_LENGTH)}${topic.length > NAME_LENGTH ? '…' : ''}'`);
  return shown.join(', ') + (topics.length > NAMED ? ` and ${topics.length - NAMED} more` : '');
}
