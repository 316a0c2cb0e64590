import type { NewMessage } from '../outbox-message.js';

export const isScheduled = ({ delay, deliverAt }: NewMessage): boolean => delay !== null || deliverAt !== null;
