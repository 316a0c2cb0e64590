import type { BatchWriter } from '../../lib/relay/settle/batch-writer.js';

/** Everything that was added to a writer and is not written. */
export function unwrittenOf<T>({ inHand, aside, waiting }: BatchWriter<T>): T[] {
  return [...inHand, ...[...aside.entries].flatMap(({ item, behind }) => [item, ...behind]), ...waiting];
}
