import { playRange } from './totals.js';

/** A process of `workers.ts`: plays what it is told. */
process.on('message', ({ first, count }: { first: number; count: number }) => {
  void playRange(first, count).then((totals) => process.send?.(totals));
});
