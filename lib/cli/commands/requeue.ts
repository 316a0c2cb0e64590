import { changeCommand } from './change.js';

export const REQUEUE = changeCommand({
  name: 'requeue',
  summary: 'Let dead messages be tried again, in their old place of the order',
  states: ['dead', 'waiting', 'blocked'],
  past: 'Requeued',
});
