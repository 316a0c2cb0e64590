import { refuseOptions, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import { aName, integer, needed } from '../../options/rules.js';
import { showNoText } from '../../options/show.js';
import { MAX_VERSION } from '../../options/text-checks.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { CIRCULAR_IMPORT, type EventClass } from './event-metadata.js';

/** Shared by every copy of this package in a process. */
const HANDLES = Symbol.for('nestjs-outbox:handles');
const METHODS = Symbol.for('nestjs-outbox:handling-methods');

interface PlainEvent {
  readonly type: string;
  readonly version?: number;
}
export type HandledEvent = EventClass | PlainEvent;

export interface OnOutboxEventOptions {
  /** Which handler has run already is stored under this id. Default `Class.method`: set it before you rename either. */
  id?: string;
}
/** The third argument of a handler. */
export interface OutboxHandlerContext {
  /**
   * Aborts when nobody waits for this call any more: shortly before `publishTimeout` is over, or when the relay stops without
   * it. A handler that passes it on (`fetch(url, { signal })`) ends itself then, and the next try begins anew.
   */
  readonly signal: AbortSignal;
}
/** What the decorator left on a method. */
export interface HandlerMark {
  readonly event: HandledEvent;
  readonly id: string | undefined;
}
/** A method, and what it handles. */
export interface MarkedBy {
  readonly method: string;
  readonly mark: HandlerMark;
}

type MethodDecoratorFor<Method> = <M extends Method>(
  target: object,
  context: string | symbol | object,
  descriptor?: TypedPropertyDescriptor<M>,
) => void;

/**
 * Calls this method for every event of a class that is routed to an `inProcess()` transport:
 *
 *     @OnOutboxEvent(OrderPlaced) async send(event: OrderPlaced, message: OutboxMessage, { signal }: OutboxHandlerContext) { … }
 *
 * At least once, until it returns; a Promise is awaited, an Observable subscribed to until it completes, a generator run to
 * its end. `signal` aborts when `publishTimeout` is nearly over, or the relay stops: pass it to what the handler waits for. A
 * retry calls only the handlers that have not succeeded; a call that goes on past its time is joined until 3 ×
 * `publishTimeout` since its begin, then the handler is called beside it. `{ type, version? }` handles messages without a
 * class: they arrive as the deserialized payload. Not for request-scoped providers.
 */
export function OnOutboxEvent<T>(
  event: EventClass<T>,
  options?: OnOutboxEventOptions,
): MethodDecoratorFor<(event: T, message: OutboxMessage, context: OutboxHandlerContext) => unknown>;
export function OnOutboxEvent(
  event: { readonly type: string; readonly version?: number },
  options?: OnOutboxEventOptions,
): MethodDecoratorFor<(event: never, message: OutboxMessage, context: OutboxHandlerContext) => unknown>;
export function OnOutboxEvent(event: HandledEvent, options: OnOutboxEventOptions = {}): MethodDecoratorFor<unknown> {
  return (target, context, descriptor) => {
    // Legacy decorators give the descriptor, standard ones the method itself.
    const method: unknown = descriptor === undefined ? target : descriptor.value;
    const place = `@OnOutboxEvent on ${placeOf(target, context)}`;
    if (typeof method !== 'function') refuseOptions(place, ['it is for methods']);
    checkEvent(place, event);
    resolveFactory({ factory: place, rows: { id: row(aName) } }, options);
    const mark = { event, id: options.id };
    Object.defineProperty(method, HANDLES, { value: [...marksOn(method as object), mark], configurable: true });
    if (descriptor !== undefined) markByName(target, context as string | symbol, mark);
  };
}

/** `Mailer.send`; of standard decorators, which are told of no class, the method alone. */
function placeOf(target: object, context: string | symbol | object): string {
  return typeof context === 'object'
    ? String((context as { name: string | symbol }).name)
    : `${target.constructor.name}.${String(context)}`;
}

const EVENT: Omit<FactoryTable<PlainEvent>, 'factory'> = {
  needed: 'type',
  hint: CIRCULAR_IMPORT,
  rows: { type: row(needed(aName)), version: row(integer(1, MAX_VERSION)) },
};

/** Whether a class has `@OutboxEvent` is seen at the start: its decorator may run later than this one. */
function checkEvent(factory: string, event: unknown): void {
  if (typeof event === 'function' && event.prototype !== undefined) return;
  if (typeof event === 'object' && event !== null)
    return void resolveFactory({ ...EVENT, factory }, event as PlainEvent);
  const problem = `the event is ${showNoText(event)}; must be a class with @OutboxEvent, or an object with 'type'`;
  refuseOptions(factory, [problem], event === undefined ? CIRCULAR_IMPORT : undefined);
}

/** Of a method of this prototype. By its name, as another decorator may have put its own function in the method's place. */
export function handlerMarks(prototype: object, name: string): readonly HandlerMark[] {
  const method: unknown = Object.getOwnPropertyDescriptor(prototype, name)?.value;
  if (typeof method !== 'function') return [];
  return [...new Set([...marksOn(method), ...(methodsOf(prototype)?.get(name) ?? [])])];
}

function marksOn(method: object): readonly HandlerMark[] {
  if (!Object.hasOwn(method, HANDLES)) return [];
  return (method as Record<symbol, readonly HandlerMark[]>)[HANDLES] as readonly HandlerMark[];
}

type MarksOf = (prototype: object) => readonly MarkedBy[];
const ofOthers = new WeakMap<object, MarksOf[]>();

/** What decorators of other packages mark in this application. Said before its `onModuleInit`. */
export function alsoMarked(application: object, marks: MarksOf): void {
  ofOthers.set(application, [...markedByOthers(application), marks]);
}

export const markedByOthers = (application: object): readonly MarksOf[] => ofOthers.get(application) ?? [];

type Methods = Map<string | symbol, HandlerMark[]>;

function markByName(prototype: object, name: string | symbol, mark: HandlerMark): void {
  const methods: Methods = methodsOf(prototype) ?? new Map();
  methods.set(name, [...(methods.get(name) ?? []), mark]);
  Object.defineProperty(prototype, METHODS, { value: methods, configurable: true });
}

/** Own only: a subclass that overrides a method says itself what it handles. */
function methodsOf(prototype: object): Methods | undefined {
  return Object.hasOwn(prototype, METHODS) ? (prototype as Record<symbol, Methods>)[METHODS] : undefined;
}
