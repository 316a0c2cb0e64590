import type { MessageQuery } from '../../index.js';
import { changeCommand, countFound } from './change.js';

/** What it deletes unless states are named; a ready message only where it is. */
const PARKED = ['scheduled', 'waiting', 'blocked', 'dead'] as const;

export const CANCEL = changeCommand({
  name: 'cancel',
  summary: 'Delete messages that have not been published',
  states: ['ready', ...PARKED],
  past: 'Cancelled',
  loss: 'they are deleted, and never sent',
  count: (outbox, { limit = Infinity, ids, state, ...filter }) => {
    const query = { ...filter, ...(ids === undefined ? {} : { ids }), state: state ?? PARKED };
    return countFound(outbox, query as MessageQuery, limit);
  },
});
