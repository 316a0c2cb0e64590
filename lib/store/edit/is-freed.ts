import type { EditableContent, RowVersion } from './edit-store.js';

/**
 * Whether an edit makes it due: it was put off without an attempt for what its old topic waits for, whose end would not free
 * it any more. If the new topic must wait, too, a relay puts it off again.
 */
export function isFreed({ state, attempts, topic }: RowVersion, changes: Partial<EditableContent>): boolean {
  return state === 'waiting' && attempts === 0 && changes.topic !== undefined && changes.topic !== topic;
}
