import type { Reader } from './reader.js';

/**
 * Asked where nothing may be read for long, as a global order is held: whether nothing holds any more that was concluded from
 * earlier reads. The connection may be another one, or numbers went back, and soon pass those that were seen. What it reads is
 * left where it is. Only the reader may ask.
 */
export async function mustReadAgain(reader: Reader): Promise<boolean> {
  // Where a read may end, this one walks over nothing.
  const positions = reader
    .positions(undefined)
    .slice(0, 1)
    .map(({ bucket, after }) => ({ bucket, after, upTo: after }));
  if (positions.length === 0 && reader.buckets !== undefined) return false;
  const fetched = await reader.store.fetch({ transport: reader.transport, positions, perBucket: 1, limit: 1 });
  reader.session ??= fetched.session;
  if (reader.session !== fetched.session) {
    reader.newSession(fetched.session);
    return true;
  }
  const wrong = await reader.numbers.look(fetched, reader.heads);
  if (wrong === undefined) return false;
  reader.startOver(wrong);
  return true;
}
