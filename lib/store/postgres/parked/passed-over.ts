import type { SqlResult } from '../../executor.js';
import type { WriteReport } from '../../ready-store.js';

/** Each further one needs somebody who changes a row just then; but that a row cannot be changed at all must not go on for ever. */
const TRIES = 5;

/**
 * Runs a write that finds its rows first and names them by their place, until there is none among them that it found and did
 * not change. A row that somebody changed in between has another place now, and is passed over; a new snapshot shows it, if it
 * still is as the write wants it.
 * @param run a row of: transaction id, how many rows were changed, anything, how many were found
 */
export async function untilNonePassedOver(run: () => Promise<SqlResult>): Promise<WriteReport> {
  let fence: string | undefined;
  let affected = 0;
  for (let tries = 0; tries < TRIES; tries += 1) {
    const { rows } = await run();
    const [transaction, changed, , found] = rows[0] as readonly [string, string, unknown, string];
    fence ??= transaction;
    affected += Number(changed);
    if (Number(changed) >= Number(found)) break;
  }
  return { fence, affected };
}
