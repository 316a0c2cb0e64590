import { compareSeq, type OutboxMessage } from '../../outbox-message.js';
import { waitedTooLong } from '../../store/database-errors.js';
import type { FetchResult, ReadPosition, ReadyStore } from '../../store/ready-store.js';
import type { Clock } from '../../time/clock.js';
import type { AboveLast } from './above-last.js';
import type { LowWaterMark } from './low-water-mark.js';
import type { KnownRows } from './known-rows.js';
import type { LateRows } from './late-rows.js';
import type { Fetched, ReadResult } from './read-result.js';
import { SnapshotLowWaterMark } from './snapshot-low-water-mark.js';

/** Who reads, as far as such a look concerns it. */
interface Reader {
  readonly store: Pick<ReadyStore, 'fetch'>;
  readonly transport: number;
  readonly clock: Clock;
  readonly above: AboveLast | undefined;
  readonly lowWaterMark: LowWaterMark;
  readonly heads: ReadonlyMap<number, string>;
  readonly known: KnownRows;
  readonly lateRows: LateRows;
  readonly restarts: number;
  isRead(bucket: number): boolean;
  fresh(messages: readonly OutboxMessage[]): OutboxMessage[];
  contradicted(found: FetchResult, restarts: number): Promise<ReadResult | undefined>;
}

/** A slice of what stands above the last number, before a read of the heads. @returns what ends the read */
export async function lookAbove(
  reader: Reader,
  limit: number,
  only: number | undefined,
): Promise<ReadResult | undefined> {
  const { above, lowWaterMark, clock, heads, restarts } = reader;
  if (above === undefined || above.cut.size === 0) return undefined;
  const previous = lowWaterMark instanceof SnapshotLowWaterMark ? lowWaterMark.previous : undefined;
  const isOurs = ({ bucket }: ReadPosition): boolean => reader.isRead(bucket) && (only ?? bucket) === bucket;
  const positions = above.due(heads, clock.monotonic(), previous).filter(isOurs);
  if (positions.length === 0) return undefined;
  const fetched = await fetchSlice(reader, positions, limit);
  if (fetched === undefined) return undefined;
  const ended = await reader.contradicted(fetched, restarts);
  if (ended !== undefined) return ended;
  above.looked(positions.filter(isOurs), fetched, limit);
  // What this snapshot sees above the last number was there before numbers went back. Newer ones come with the heads, in order.
  const last = fetched.source?.last ?? '0';
  const messages = reader.fresh(fetched.messages).filter(({ seq }) => compareSeq(seq, last) > 0);
  if (messages.length === 0) return undefined;
  for (const message of messages) reader.known.add(message);
  above.rests = true;
  return { messages, durable: fetched.durable, more: true };
}

/** @returns `undefined` where it took too long, and the next one asks for less */
async function fetchSlice(
  reader: Reader,
  positions: readonly ReadPosition[],
  limit: number,
): Promise<Fetched | undefined> {
  const { store, transport, clock, lateRows, above } = reader;
  const walks = above?.walks;
  const request = { transport, positions, perBucket: limit, limit, within: walks?.limitOf(positions) };
  const began = clock.monotonic();
  const fetch = () => store.fetch(request);
  try {
    const fetched = await (lateRows.cost?.measure(fetch) ?? fetch());
    return { ...fetched, took: clock.monotonic() - began };
  } catch (error) {
    if (!waitedTooLong(error) || walks?.cancelled(positions, clock.monotonic() - began) !== true) throw error;
    return undefined;
  }
}
