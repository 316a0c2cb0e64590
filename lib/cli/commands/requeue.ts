import { changeCommand } from './change.js';

export const REQUEUE = changeCommand({
  name: 'requeue',
  summary: 'Try dead messages again, in their old place in the order',
  states: ['dead', 'waiting', 'blocked'],
  past: 'Requeued',
});
