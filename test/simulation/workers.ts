import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { merge, nothing, playRange, type Totals } from './totals.js';

export interface Chunk {
  readonly first: number;
  readonly count: number;
  /** Nobody looks at everything. */
  readonly noScan: boolean;
}

/** Histories that a worker is given at once. */
const CHUNK = 100;

/**
 * Plays histories in several processes. A history is its seed's, whoever plays it.
 * @param enough asked between two chunks
 */
export async function playAll(
  first: number,
  histories: number,
  workers: number,
  enough: (sum: Totals) => boolean,
  noScan = false,
): Promise<Totals> {
  const sum = nothing();
  let next = first;
  const chunks = function* (): Generator<Chunk> {
    while (next < first + histories && !enough(sum)) {
      const count = Math.min(CHUNK, first + histories - next);
      next += count;
      yield { first: next - count, count, noScan };
    }
  };
  if (workers === 1 || histories <= CHUNK) {
    for (const chunk of chunks()) merge(sum, await playRange(chunk.first, chunk.count, noScan));
  } else {
    await Promise.all(Array.from({ length: workers }, () => employ(chunks(), sum)));
  }
  sum.broken.sort((a, b) => a.seed - b.seed);
  return sum;
}

async function employ(chunks: Iterable<Chunk>, sum: Totals): Promise<void> {
  const child = fork(fileURLToPath(new URL('worker.ts', import.meta.url)));
  const gone = once(child, 'exit').then(([code]: unknown[]) => {
    throw new Error(`A worker ended with ${String(code)}.`);
  });
  gone.catch(() => undefined);
  for (const chunk of chunks) merge(sum, await Promise.race([gone, work(child, chunk)]));
  child.removeAllListeners('exit');
  child.disconnect();
}

async function work(child: ChildProcess, chunk: Chunk): Promise<Totals> {
  child.send(chunk);
  const [totals] = (await once(child, 'message')) as [Totals];
  return totals;
}
