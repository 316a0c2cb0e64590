import type { OutboxService } from '../enqueue/outbox.service.js';
import type { EnqueueOptions } from '../enqueue/options.js';
import { OutboxMessageError } from '../outbox.errors.js';

/** The methods that {@link commitTo} uses of an `AggregateRoot` of @nestjs/cqrs. */
export interface AggregateOfEvents {
  readonly autoCommit?: boolean;
  getUncommittedEvents(): object[];
  uncommit(): void;
  apply(event: object, options: { skipHandler: true }): void;
}

/** Two calls at once would enqueue the same events twice. */
const committing = new WeakSet<AggregateOfEvents>();

/**
 * Enqueues the events of an aggregate, in their order and by one INSERT, then takes them off the aggregate: what its own `commit()`
 * does, awaited. Save the aggregate in the same transaction. When it rejects, nothing was written and the aggregate has its events
 * still. After a rollback they are gone from it: load the aggregate again.
 * @param options `tx`, or nothing in an ambient transaction; what else `enqueue` takes for an array
 * @returns the ids of the messages
 * @throws what `enqueue` does; `INVALID_MESSAGE`: the aggregate has `autoCommit`, or is being committed already
 */
export async function commitTo(
  outbox: Pick<OutboxService, 'enqueue'>,
  aggregate: AggregateOfEvents,
  options?: EnqueueOptions,
): Promise<string[]> {
  if (aggregate.autoCommit === true)
    throw refused(aggregate, 'has autoCommit, and keeps no events', 'Turn autoCommit off.');
  if (committing.has(aggregate)) throw refused(aggregate, 'is being committed already', 'Await the first call.');
  committing.add(aggregate);
  try {
    const events = [...aggregate.getUncommittedEvents()];
    const ids = await outbox.enqueue(events, options);
    const later = aggregate.getUncommittedEvents().slice(events.length);
    aggregate.uncommit();
    for (const event of later) aggregate.apply(event, { skipHandler: true });
    return ids;
  } finally {
    committing.delete(aggregate);
  }
}

const refused = ({ constructor }: object, problem: string, hint: string): OutboxMessageError =>
  new OutboxMessageError('INVALID_MESSAGE', `commitTo: this ${constructor.name} ${problem}.`, { hint });
