import { OutboxConfigurationError } from '../../outbox.errors.js';

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
