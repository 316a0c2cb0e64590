import type { OutboxMessage } from '../../outbox-message.js';
import type { TransportRelayDependencies } from '../relay.types.js';

/** Transport relays whose first message was told, for as long as they live. */
const told = new WeakSet<object>();

/** The database knows that the broker has them. The first of a transport has an event of its own: somebody waits for it. */
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
