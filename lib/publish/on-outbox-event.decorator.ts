import type { OutboxMessage } from '../message.js';

/** Shared by every copy of this package in a process. */
const HANDLES = Symbol.for('nestjs-outbox:handles');

/** A class with `@OutboxEvent`. */
// eslint-disable-next-line typescript/no-unsafe-function-type
type HandledClass<T = object> = Function & { readonly prototype: T };
export type HandledEvent = HandledClass | { readonly type: string; readonly version?: number };

export interface OnOutboxEventOptions {
  /** Which handler has run already is stored under this id. Default `Class.method`: set it before you rename either. */
  id?: string;
}
/** What the decorator left on a method. */
export interface HandlerMark {
  readonly event: HandledEvent;
  readonly id: string | undefined;
}

type MethodDecoratorFor<Method> = <M extends Method>(
  target: object,
  context: string | symbol | object,
  descriptor?: TypedPropertyDescriptor<M>,
) => void;

/**
 * Calls this method for every event of a class that is routed to an `inProcess()` transport:
 *
 *     @OnOutboxEvent(OrderPlaced) async send(event: OrderPlaced, message: OutboxMessage) { … }
 *
 * At least once, until it returns; a retry calls only the handlers that have not succeeded. `{ type, version? }` handles
 * messages without a class: they arrive as the deserialized payload. Not for request-scoped providers.
 */
export function OnOutboxEvent<T>(
  event: HandledClass<T>,
  options?: OnOutboxEventOptions,
): MethodDecoratorFor<(event: T, message: OutboxMessage) => unknown>;
export function OnOutboxEvent(
  event: { readonly type: string; readonly version?: number },
  options?: OnOutboxEventOptions,
): MethodDecoratorFor<(event: never, message: OutboxMessage) => unknown>;
export function OnOutboxEvent(event: HandledEvent, { id }: OnOutboxEventOptions = {}): MethodDecoratorFor<unknown> {
  return (target, _context, descriptor) => {
    // Legacy decorators give the descriptor, standard ones the method itself.
    const method: unknown = descriptor === undefined ? target : descriptor.value;
    if (typeof method !== 'function') throw new TypeError('@OnOutboxEvent is for methods.');
    Object.defineProperty(method, HANDLES, { value: [...handlerMarks(method), { event, id }], configurable: true });
  };
}

export function handlerMarks(method: unknown): readonly HandlerMark[] {
  if (typeof method !== 'function' || !Object.hasOwn(method, HANDLES)) return [];
  return (method as unknown as Record<symbol, readonly HandlerMark[]>)[HANDLES] as readonly HandlerMark[];
}
