import type { Approach } from './approach.js';
import type { NumberWatch } from './number-watch.js';
import type { ReadResult } from './read-result.js';

/** Who reads, as far as an approach moves it. */
interface Reader {
  readonly approach: Approach | undefined;
  /** Bucket → the number up to which it was read. */
  readonly heads: Map<number, string>;
  readonly forgotten: ReadonlySet<number>;
  readonly numbers: NumberWatch;
  session: number | undefined;
  newSession(session: number): ReadResult;
  startOver(reason: string): ReadResult;
}

/** A step of an approach, before a read. @returns what ends the read */
export async function goOnApproaching(claimer: Reader): Promise<ReadResult | undefined> {
  const { approach, heads } = claimer;
  if (approach === undefined) return undefined;
  if (approach.asksEdge) {
    const edge = await approach.store.edge();
    claimer.session ??= edge.session;
    if (claimer.session !== edge.session) return claimer.newSession(edge.session);
    const wrong = await claimer.numbers.look(edge, heads);
    if (wrong !== undefined) return claimer.startOver(wrong);
    for (const [bucket, seq] of approach.begin(edge, claimer.forgotten)) heads.set(bucket, seq);
  }
  for (const [bucket, seq] of await approach.goOn()) heads.set(bucket, seq);
  return undefined;
}
