import type { Clock } from '../../time/clock.js';
import type { ReadyStore } from '../../store/ready-store.js';
import { Approach } from './approach.js';
import type { LowWaterMark } from './low-water-mark.js';
import type { LateRows } from './late-rows.js';
import type { NumberWatch } from './number-watch.js';
import { ProbedLowWaterMark } from './probed-low-water-mark.js';
import { ProbedApproach } from './probed-approach.js';
import type { ReadResult } from './read-result.js';

export type AnyApproach = Approach | ProbedApproach;

/** By what reads prove; `undefined` where the store cannot look: there a bucket is fetched from its beginning. */
export function approachOn(
  store: Pick<ReadyStore, 'fetch' | 'edge' | 'lowest' | 'probe' | 'numberSource'>,
  transport: number,
  lowWaterMark: LowWaterMark,
  clock: Clock,
): AnyApproach | undefined {
  const { lowest, probe, numberSource } = store;
  if (!(lowWaterMark instanceof ProbedLowWaterMark)) return Approach.on(store, transport, lowWaterMark, clock);
  if (lowest === undefined || probe === undefined || numberSource === undefined) return undefined;
  return new ProbedApproach(store as Required<typeof store>, transport, lowWaterMark, clock);
}

/** Who reads, as far as an approach moves it. */
interface Reader {
  readonly approach: AnyApproach | undefined;
  /** Bucket → the number up to which it was read. */
  readonly heads: Map<number, string>;
  readonly forgotten: ReadonlySet<number>;
  readonly numbers: NumberWatch;
  readonly lateRows: LateRows;
  session: number | undefined;
  newSession(session: number): ReadResult;
  startOver(reason: string): ReadResult;
}

/** A step of an approach, before a read. @returns what ends the read */
export async function goOnApproaching(reader: Reader): Promise<ReadResult | undefined> {
  const { approach, heads } = reader;
  if (approach === undefined) return undefined;
  if (approach.asksEdge) {
    const edge = await approach.edge();
    reader.session ??= edge.session;
    if (reader.session !== edge.session) return reader.newSession(edge.session);
    const wrong = await reader.numbers.look(edge, heads);
    if (wrong !== undefined) return reader.startOver(wrong);
    for (const [bucket, seq] of approach.begin(edge, reader.forgotten)) heads.set(bucket, seq);
  }
  for (const [bucket, seq] of await approach.goOn()) heads.set(bucket, seq);
  if (approach instanceof ProbedApproach) reader.lateRows.sweepFor(approach.takeMet());
  return undefined;
}
