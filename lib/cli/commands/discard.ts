import { changeCommand } from './change.js';

export const DISCARD = changeCommand({
  name: 'discard',
  summary: 'Delete dead messages; messages they blocked continue',
  states: ['dead', 'waiting', 'blocked'],
  past: 'Discarded',
  loss: 'they are deleted, and never sent',
});
