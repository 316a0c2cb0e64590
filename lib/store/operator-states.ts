import type { ParkedState } from '../outbox-message.js';
import { CHANGES, type Change, type MessageFilter } from './admin-store.js';

/** Of the states that a call can change, those that its filter means. */
export function statesOf(change: Change, { states }: Pick<MessageFilter, 'states'>): ParkedState[] {
  return CHANGES[change].filter((state) => states === undefined || states.includes(state));
}

/** A filter of other states never looks through what is ready, which may be millions. */
export function meansReady({ states }: Pick<MessageFilter, 'states'>): boolean {
  return states === undefined || states.includes('ready');
}
