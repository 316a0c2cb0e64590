import type { TableNames } from '../../names.js';
import type { SchemaSettings } from '../../outbox-store.js';
import { BLOCKED, WAITING } from '../../parked-state.js';

/** How settings of tables that are there are changed. What is fixed with the tables decides: some never are. */
export function wayOut(
  different: readonly string[],
  wanted: SchemaSettings,
  stored: ReadonlyMap<string, string>,
  names: TableNames,
): string | undefined {
  if (different.some((name) => name !== 'ordering' && name !== 'coordination')) return undefined;
  const { ordering, coordination } = wanted;
  const updates = Object.entries({ ordering, coordination })
    .filter(([name]) => different.includes(name))
    .map(([name, value]) => `update ${names.meta} set value = '${value}' where name = '${name}'`);
  const isReordered = different.includes('ordering');
  if (isReordered && ordering === 'none') updates.push(unblock(names));
  const stop = isReordered
    ? `${drain(ordering, stored)}, stop every process that enqueues or publishes, run the up of outboxSql() with the new settings (it may run again)`
    : 'stop every relay, let it drain';
  return `${stop}, and run: ${updates.join('; ')}`;
}

/** Where nothing blocks nobody goes on with what is blocked: behind a dead message it is, however long the relays drain. */
function unblock({ parked }: TableNames): string {
  const isBlocked = `case state when ${BLOCKED} then`;
  return `update ${parked} set state = ${isBlocked} ${WAITING} else state end, due_at = ${isBlocked} now() else due_at end, blocking = false where blocking`;
}

/** With a global order every message has bucket 0, with others its key's: what is left would stay where nobody looks for it. */
function drain(ordering: unknown, stored: ReadonlyMap<string, string>): string {
  const moves = [ordering, stored.get('ordering')].includes('global');
  return moves
    ? 'let the relays drain until no message is left, dead and scheduled ones included'
    : 'let the relays drain';
}
