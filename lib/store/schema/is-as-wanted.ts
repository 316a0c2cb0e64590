import { OutboxConfigurationError } from '../../outbox.errors.js';

/** What to do about tables that `create` left as they were. */
export const ADDS_ONLY =
  'database.setup "create" adds what is missing, and changes nothing that is there. In development drop these tables, and they are made anew; elsewhere run the migrations of outboxMigrations().';

/** Whether a check of the tables found nothing to complain about. What is no finding, such as a lost connection, is thrown. */
export async function isAsWanted(check: Promise<void>): Promise<boolean> {
  try {
    await check;
    return true;
  } catch (error) {
    if (error instanceof OutboxConfigurationError) return false;
    throw error;
  }
}
