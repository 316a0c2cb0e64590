import { eventMetadata, type EventClass } from '../enqueue/events/event-metadata.js';
import { eventClasses } from '../enqueue/events/event-twins.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { ExpectedMessages } from '../transports/transport.js';
import { openInstances } from './instances.js';

/** The outboxes of this process are those that are open when somebody asks. */
export function expectedHere(options: ResolvedOptions): (transport: string) => ExpectedMessages[] {
  return (transport) => {
    const outboxes = openInstances().map((one) => one.options);
    return expectedOf(transport, options, outboxes);
  };
}

/**
 * What the event classes of this process tell of a transport's messages: those with one topic for all of them. A class does not
 * say whose it is: one that another outbox of the process may enqueue as well tells nothing.
 * @param outboxes all that there are in this process
 */
export function expectedOf(
  transport: string,
  { defaultTransport }: Pick<ResolvedOptions, 'defaultTransport'>,
  outboxes: readonly Pick<ResolvedOptions, 'transports' | 'defaultTransport'>[],
  classes: readonly EventClass[] = eventClasses(),
): ExpectedMessages[] {
  return classes.flatMap((eventClass) => {
    const metadata = eventMetadata(eventClass);
    if (metadata === undefined || typeof metadata.topic === 'function') return [];
    const { topic, transports: named, options = {} } = metadata;
    if (!(named ?? [defaultTransport]).includes(transport)) return [];
    const takers = outboxes.filter((one) => named?.some((name) => one.transports.has(name)) ?? true);
    return takers.length > 1 ? [] : [{ topic, options: typeof options === 'function' ? null : options }];
  });
}
