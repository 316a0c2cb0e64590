import type { Clock } from '../dispatch/clock.js';
import type { ReadyStore } from '../store/ready-store.js';
import { Approach } from './approach.js';
import type { Claimer, ReadResult } from './claimer.js';
import type { Floor } from './floor.js';
import { ProbeFloor } from './probe-floor.js';
import { ProbedApproach } from './probed-approach.js';

export type AnyApproach = Approach | ProbedApproach;

/** By what reads prove; `undefined` where the store cannot look: there a bucket is fetched from its beginning. */
export function approachOn(
  store: Pick<ReadyStore, 'fetch' | 'edge' | 'lowest' | 'probe' | 'numberSource'>,
  transport: number,
  floor: Floor,
  clock: Clock,
): AnyApproach | undefined {
  const { lowest, probe, numberSource } = store;
  if (!(floor instanceof ProbeFloor)) return Approach.on(store, transport, floor, clock);
  if (lowest === undefined || probe === undefined || numberSource === undefined) return undefined;
  return new ProbedApproach(store as Required<typeof store>, transport, floor, clock);
}

/** A step of the {@link Claimer.approach}, before a read. @returns what ends the read */
export async function goOnApproaching(claimer: Claimer): Promise<ReadResult | undefined> {
  const { approach, heads } = claimer;
  if (approach === undefined) return undefined;
  if (approach.asksEdge) {
    const edge = await approach.edge();
    claimer.session ??= edge.session;
    if (claimer.session !== edge.session) return claimer.newSession(edge.session);
    const wrong = await claimer.numbers.look(edge, heads);
    if (wrong !== undefined) return claimer.startOver(wrong);
    for (const [bucket, seq] of approach.begin(edge, claimer.forgotten)) heads.set(bucket, seq);
  }
  for (const [bucket, seq] of await approach.goOn()) heads.set(bucket, seq);
  if (approach instanceof ProbedApproach) claimer.lateRows.sweepFor(approach.takeMet());
  return undefined;
}
