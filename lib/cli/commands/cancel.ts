import { changeCommand } from './change.js';

export const CANCEL = changeCommand({
  name: 'cancel',
  summary: 'Delete messages that have not been published',
  states: ['ready', 'scheduled', 'waiting', 'blocked', 'dead'],
  past: 'Cancelled',
  loss: 'they are deleted, and never sent',
});
