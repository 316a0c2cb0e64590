import { playRange } from './totals.js';
import type { Chunk } from './workers.js';

/** A process of `workers.ts`: plays what it is told. */
process.on('message', ({ first, count, noScan }: Chunk) => {
  void playRange(first, count, noScan).then((totals) => process.send?.(totals));
});
