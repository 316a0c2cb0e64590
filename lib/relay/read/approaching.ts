import type { Claimer, ReadResult } from './claimer.js';

/** A step of the {@link Claimer.approach}, before a read. @returns what ends the read */
export async function goOnApproaching(claimer: Claimer): Promise<ReadResult | undefined> {
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
