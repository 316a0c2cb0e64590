import type { TransportDefinition } from '../outbox.options.js';
import type { OutboxTransport } from '../transports/transport.js';

/** A wrapper of a transport: takes its name, and returns the definition from which a relay creates it. */
export type TransportWrapper = (name: string, definition: TransportDefinition) => TransportDefinition;

export type Publish = OutboxTransport['publish'];

/** Puts a function around `publish` of a transport once, however often relays are made of it: a definition may give one object again. */
export function aroundPublish(
  around: (publish: Publish, name: string, definition: TransportDefinition) => Publish,
): TransportWrapper {
  const done = new WeakSet<OutboxTransport>();
  return (name, definition) => ({
    ...definition,
    create: async (...dependencies) => {
      const transport = await definition.create(...dependencies);
      // What has no publish is refused by whoever asked for it.
      if (typeof transport?.publish !== 'function' || done.has(transport)) return transport;
      done.add(transport);
      transport.publish = around(transport.publish.bind(transport), name, definition);
      return transport;
    },
  });
}
