import { changeCommand } from './change.js';

export const DISCARD = changeCommand({
  name: 'discard',
  summary: 'Delete dead messages; what they blocked goes on',
  states: ['dead', 'waiting', 'blocked'],
  past: 'Discarded',
  loss: 'they are deleted, and never sent',
});
