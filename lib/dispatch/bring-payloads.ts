import { readLargePayloads } from '../large-payloads.js';
import type { OutboxMessage } from '../message.js';
import { pause } from './clock.js';
import type { LaneDependencies } from './lane.types.js';

/** Brings the large payloads of a batch; a database that does not answer is told, and nobody is to blame. */
export async function bringLargePayloads(
  { store, id, hooks, clock }: Pick<LaneDependencies, 'store' | 'id' | 'hooks' | 'clock'>,
  messages: readonly OutboxMessage[],
): Promise<boolean> {
  try {
    if (await readLargePayloads(store, id, messages)) return true;
  } catch (error) {
    hooks.emit('error', { operation: 'fetch', error, retryIn: PAUSE });
  }
  await pause(clock, PAUSE); // they would be read again at once
  return false;
}
/** Milliseconds. */
const PAUSE = 200;
