import type { InProcessHandler, InProcessHandlers } from './handlers.js';

export type HandlerCallable = InProcessHandler['call'];

/** The same handlers, with a function around the calls of each. */
export function aroundCalls(
  handlers: InProcessHandlers,
  around: (handler: InProcessHandler) => HandlerCallable,
): InProcessHandlers {
  const known = new WeakMap<InProcessHandler, InProcessHandler>();
  const wrapped = (handler: InProcessHandler): InProcessHandler => {
    let found = known.get(handler);
    if (found === undefined) known.set(handler, (found = { ...handler, call: around(handler) }));
    return found;
  };
  const of = (type: string, version: number) => handlers.of(type, version).map(wrapped);
  return Object.create(handlers, { of: { value: of } }) as InProcessHandlers;
}
