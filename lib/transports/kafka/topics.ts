/** Of plain SQL any number of names may come. */
const MOST = 1_000;

/**
 * Topics that Kafka refused as such: missing, denied, without a leader. Each is remembered until one of its messages gets
 * through: until then it is asked about once and not again and again, and what goes to it shares no request with others.
 */
export class RefusedTopics {
  /** By topic: whether asking about it finds nothing wrong, and its records are refused. */
  private readonly known = new Map<string, boolean>();

  note(topic: string, wasSent: boolean): void {
    const before = this.known.get(topic) === true;
    this.known.delete(topic); // the last one stands at the end
    this.known.set(topic, before || wasSent);
    const [oldest] = this.known.keys();
    if (this.known.size > MOST) this.known.delete(oldest!);
  }

  gotThrough(topics: Iterable<string>): void {
    if (this.known.size > 0) for (const topic of topics) this.known.delete(topic);
  }

  has(topic: string): boolean {
    return this.known.has(topic);
  }

  /** Its records may be what ends a producer. */
  goesApart(topic: string): boolean {
    return this.known.get(topic) === true;
  }
}

/** Answers to records that speak of their topic, and of every record that goes there. */
const OF_A_TOPIC: ReadonlyMap<number, string> = new Map([
  [3, 'UNKNOWN_TOPIC_OR_PARTITION'],
  [17, 'INVALID_TOPIC_EXCEPTION'],
  [29, 'TOPIC_AUTHORIZATION_FAILED'],
]);

export function topicErrorOf(code: number): unknown {
  const type = OF_A_TOPIC.get(code);
  return type && Object.assign(new Error('Kafka refuses this topic.'), { type });
}
