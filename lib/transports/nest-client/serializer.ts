import { isThenable } from '../../message/is-thenable.js';
import { OutboxError } from '../../outbox.errors.js';
import type { NestClient } from './kind.js';

type Serializer = Required<NestClient>['serializer'];

const REFUSING = new WeakSet<Serializer>();

/** Some of Nest's clients do not wait for their serializer: they would send a promise as `{}` or as `[object Promise]`. */
export function refusePromises(client: NestClient): void {
  const inner = client.serializer;
  if (typeof inner?.serialize !== 'function' || REFUSING.has(inner)) return;
  const outer = Object.create(inner) as Serializer;
  outer.serialize = (packet, options) => {
    const serialized = inner.serialize(packet, options);
    refusePromise(serialized);
    return serialized;
  };
  REFUSING.add(outer);
  client.serializer = outer;
}

/** @throws OutboxError `TRANSPORT_UNAVAILABLE`: nobody's message is at fault. */
export function refusePromise(serialized: unknown): void {
  if (!isThenable(serialized)) return;
  Promise.resolve(serialized).catch(() => undefined);
  const text =
    'The serializer of this client gives a promise, and this kind of client does not wait for it: make it synchronous.';
  throw new OutboxError('TRANSPORT_UNAVAILABLE', text);
}
