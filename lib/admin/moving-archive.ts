import { OutboxError } from '../outbox.errors.js';

/** A store with partitions: whether rows wait beside the archive for theirs. */
export interface Layouts {
  layout(): Promise<{ readonly aside: boolean }>;
}

/**
 * No look at the archive finds such rows, and behind it they are there again: a purge would spare them, a replay leave them out.
 * @throws OutboxError `ARCHIVE_MOVING`
 */
export async function refuseMoving(partitions: Layouts | undefined, subject: string): Promise<void> {
  if ((await partitions?.layout())?.aside !== true) return;
  throw new OutboxError(
    'ARCHIVE_MOVING',
    `${subject}: messages wait beside the archive for their partition, and are not found.`,
    { hint: "Let the maintainer of partitions, or 'partitions run', move them. Then call again." },
  );
}
