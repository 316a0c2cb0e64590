import type { MessageQuery } from '../../index.js';
import { changeCommand, countFound } from './change.js';

const STATES = ['ready', 'scheduled', 'waiting', 'blocked', 'dead'] as const;

export const CANCEL = changeCommand({
  name: 'cancel',
  summary: 'Delete messages that have not been published',
  states: STATES,
  past: 'Cancelled',
  loss: 'they are deleted, and never sent',
  count: (outbox, { limit = Infinity, ids, state, ...filter }) => {
    const query = { ...filter, ...(ids === undefined ? {} : { ids }), state: state ?? STATES };
    return countFound(outbox, query as MessageQuery, limit);
  },
});
