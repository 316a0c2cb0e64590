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

/**
 * Makes what is missing, and checks. A view of a column that is gone cannot be made: then the check says which it is.
 * @param isOfColumn whether the server complained of a column
 */
export async function make(
  create: Promise<void>,
  isOfColumn: (error: unknown) => boolean,
  check: () => Promise<void>,
): Promise<void> {
  const failure = await create.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  if (failure !== undefined && !isOfColumn(failure.error)) throw failure.error;
  await check();
  if (failure !== undefined) throw failure.error;
}
