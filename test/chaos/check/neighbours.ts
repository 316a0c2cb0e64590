import { touchesRelays, type FaultLog, type FaultSpan } from './faults.js';
import { firstAfter } from './recoveries.js';

/** Microseconds without a publish, while others have none to wait for: a publish that gets no answer, and a poll, take less. */
const HALTED = 5_000_000;
/** For what an earlier fault left behind. */
const AFTERMATH = 20_000_000;

/**
 * While one topic is missing, those that are there go on: on each transport somebody publishes. Not judged where something else may have
 * stopped all relays, or all but one.
 * @param seen of each transport, sorted
 * @param end when nothing was written any more
 */
export function haltedNeighbours(
  seen: readonly Float64Array[],
  faults: FaultLog,
  relays: number,
  end: number,
): { judged: number; halted: string[] } {
  const halted: string[] = [];
  const spans = faults.spans.filter(
    (span) => span.kind === 'topic-missing' && span.to < end && !mayStop(span, faults, relays),
  );
  for (const { id, from, to } of spans) {
    seen.forEach((times, transport) => {
      if (times.length === 0) return;
      let last = from;
      for (let next = firstAfter(times, from); last < to; next += 1) {
        const time = Math.min(times[next] ?? Infinity, to);
        if (time - last > HALTED)
          halted.push(`transport ${transport} for ${Math.round((time - last) / 1_000)} ms of topic-missing ${id}`);
        last = time;
      }
    });
  }
  return { judged: spans.length, halted };
}

function mayStop(missing: FaultSpan, faults: FaultLog, relays: number): boolean {
  const hit = new Set<number>();
  for (const span of faults.spans) {
    const isBeside = span.from <= missing.to && span.to >= missing.from - AFTERMATH;
    if (span === missing || !isBeside || !touchesRelays(span)) continue;
    if (span.runs === 'all') {
      // The same again stops nobody, wherever it is.
      if (span.kind !== 'topic-missing') return true;
    } else for (const run of span.runs) hit.add(run);
  }
  return hit.size > relays / 2;
}
