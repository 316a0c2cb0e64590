import type { Claimer } from './claimer.js';

/**
 * Asked where nothing may be read for long, as a global order is held: whether the connection is another one by now, so that
 * nothing which was concluded from earlier reads holds. What it reads is left where it is. Only the reader may ask.
 */
export async function isAnotherSession(claimer: Claimer): Promise<boolean> {
  const positions = claimer.positions(undefined).slice(0, 1);
  if (positions.length === 0 && claimer.buckets !== undefined) return false;
  const { session } = await claimer.store.fetch({ transport: claimer.transport, positions, perBucket: 1, limit: 1 });
  claimer.session ??= session;
  if (claimer.session === session) return false;
  claimer.newSession(session);
  return true;
}
