import type { Claimer } from './claimer.js';

/**
 * Asked where nothing may be read for long, as a global order is held: whether nothing holds any more that was concluded from
 * earlier reads. The connection may be another one, or numbers went back, and soon pass those that were seen. What it reads is
 * left where it is. Only the reader may ask.
 */
export async function mustReadAgain(claimer: Claimer): Promise<boolean> {
  const positions = claimer.positions(undefined).slice(0, 1);
  if (positions.length === 0 && claimer.buckets !== undefined) return false;
  const fetched = await claimer.store.fetch({ transport: claimer.transport, positions, perBucket: 1, limit: 1 });
  claimer.session ??= fetched.session;
  if (claimer.session !== fetched.session) {
    claimer.newSession(fetched.session);
    return true;
  }
  const wrong = await claimer.numbers.look(fetched, claimer.heads);
  if (wrong === undefined) return false;
  claimer.startOver(wrong);
  return true;
}
