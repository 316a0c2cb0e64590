import type { OutboxMessage } from '../../outbox-message.js';
import type { TransportRelayDependencies } from '../relay.types.js';

/** Relays of which the first message was told, until their relay is gone. */
const told = new WeakSet<object>();

/** The database knows that the broker has them. Of the first of a relay there is news of its own: whoever set it up waits for that. */
export function tellPublished(
  deps: Pick<TransportRelayDependencies, 'name' | 'hooks'>,
  messages: readonly Pick<OutboxMessage, 'id' | 'type' | 'topic'>[],
): void {
  const { name: transport, hooks } = deps;
  const [first] = messages;
  if (first === undefined) return;
  if (!told.has(deps)) {
    told.add(deps);
    const { id, type, topic } = first;
    hooks.emit('firstPublished', { transport, id, type, topic });
  }
  if (hooks.has('published')) hooks.emit('published', { transport, ids: messages.map(({ id }) => id) });
}
