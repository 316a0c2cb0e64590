import type { OutboxService } from '../../lib/index.js';
import { OrderPlaced } from './app.js';

const KEYS = 10_000;

/**
 * Transactions that enqueue one message each, `rate` a second by one clock: what comes late is late.
 * @returns milliseconds of each, from the time at which it was to begin
 */
export async function writeAtRate(service: OutboxService, rate: number, isOver: () => boolean): Promise<number[]> {
  const begun = performance.now();
  const took: number[] = [];
  const all: Promise<void>[] = [];
  for (let n = 0; !isOver(); n++) {
    const at = begun + (n * 1_000) / rate;
    while (performance.now() < at)
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())));
    all.push(
      service
        .transaction(() => service.enqueue(new OrderPlaced(`order-${n % KEYS}`)))
        .then(() => void took.push(performance.now() - at)),
    );
  }
  await Promise.all(all);
  return took;
}

/** For so many milliseconds. */
export function writeFor(service: OutboxService, rate: number, ms: number): Promise<number[]> {
  const end = performance.now() + ms;
  return writeAtRate(service, rate, () => performance.now() > end);
}
