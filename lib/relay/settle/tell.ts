import type { OutboxMessage } from '../../outbox-message.js';
import type { Blame } from '../../transports/transport.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import { isRetry, type Transition } from './settler.js';

/** Transport relays that have published something, for as long as they live. */
const begun = new WeakSet<object>();

/** The database knows that the broker has them. The first of a transport has an event of its own: somebody waits for it. */
export function tellPublished(
  deps: Pick<TransportRelayDependencies, 'name' | 'hooks'>,
  messages: readonly Pick<OutboxMessage, 'id' | 'type' | 'topic' | 'parkedState' | 'batch'>[],
): void {
  const { name: transport, hooks } = deps;
  const [first] = messages;
  if (first === undefined) return;
  if (!begun.has(deps)) {
    begun.add(deps);
    const { id, type, topic } = first;
    hooks.emit('firstPublished', { transport, id, type, topic });
  }
  if (!hooks.has('published')) return;
  const batches = [...new Set(messages.map(({ batch }) => batch))];
  hooks.emit('published', { transport, ids: idsOf(messages), batches, ...scheduledOf(messages) });
}

/** What was written of a message that is not through: its death, or that it is tried again. One that was put off without a try is no news. */
export function tellTransition(
  { name: transport, hooks, died }: Pick<TransportRelayDependencies, 'name' | 'hooks' | 'died'>,
  transition: Transition,
): void {
  const { message, state, attempts, delay, error } = transition;
  const { id, type, topic } = message;
  const of = { transport, id, type, topic, ...batchOf(message), attempts };
  if (state === 'dead') {
    hooks.emit('dead', { ...of, error: error ?? '' });
    died();
  } else if (isRetry(transition)) hooks.emit('retried', { ...of, delay: delay ?? 0, error: error ?? '' });
}

/** In which batch it was, of the field `batch` of its events. */
export const batchOf = ({ batch }: Pick<OutboxMessage, 'batch'>): { batch?: number } => (batch === 0 ? {} : { batch });

const idsOf = (messages: readonly Pick<OutboxMessage, 'id'>[]): string[] => messages.map(({ id }) => id);

function scheduledOf(messages: readonly Pick<OutboxMessage, 'id' | 'parkedState'>[]): { scheduled?: string[] } {
  const scheduled = messages.filter(({ parkedState }) => parkedState === 'scheduled');
  return scheduled.length === 0 ? {} : { scheduled: idsOf(scheduled) };
}

/** Failures of the batches at hand: they are told once for all of a batch that failed alike. */
export class Failures {
  readonly alike = new Map<string, { batch: number; blame: Blame; error: string; exampleId: string; count: number }>();

  note({ batch, id }: OutboxMessage, blame: Blame, error: string): void {
    const name = `${batch} ${blame} ${error}`;
    const known = this.alike.get(name);
    if (known !== undefined) known.count += 1;
    else this.alike.set(name, { batch, blame, error, exampleId: id, count: 1 });
  }

  tell({ hooks, name: transport }: Pick<TransportRelayDependencies<unknown>, 'hooks' | 'name'>): void {
    for (const failure of this.alike.values()) hooks.emit('failed', { transport, ...failure });
    this.alike.clear();
  }
}
