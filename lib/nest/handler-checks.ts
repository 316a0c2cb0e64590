import { misconfigured } from '../outbox.errors.js';
import type { EventClass, EventMetadata } from '../enqueue/events/event-metadata.js';
import type { OutboxMessage } from '../outbox-message.js';
import { overlap } from '../transports/in-process/handlers.js';
import type { OutboxHandlerContext } from '../enqueue/events/on-outbox-event.decorator.js';

/** A name as it may have been before a bundler made it another one. */
export interface NameStem {
  readonly className: string;
  readonly method: string;
}

/** An `@OnOutboxEvent` method of one provider or controller. */
export interface FoundHandler {
  /** `Mailer.send`. */
  readonly name: string;
  /** The module that has its provider. */
  readonly module: string;
  readonly id: string;
  /** What a build cannot tell it apart by from others; `undefined`: it has an id of its own. */
  readonly stem: NameStem | undefined;
  readonly type: string;
  readonly version: number | undefined;
  readonly eventClass: EventClass | undefined;
  readonly metadata: EventMetadata | undefined;
  call(event: unknown, message: OutboxMessage, context: OutboxHandlerContext): unknown;
}

/** A method that `@OnOutboxEvent` marks, before anybody is called. */
export interface MarkedMethod {
  /** Of its provider. */
  readonly prototype: object;
  readonly method: string;
  /** As the application gave it. */
  readonly id: string | undefined;
}

/** What Nest's decorators leave on a class or a method, by the decorator that leaves it. */
const ENHANCERS = {
  '@UseGuards': '__guards__',
  '@UseInterceptors': '__interceptors__',
  '@UsePipes': '__pipes__',
  '@UseFilters': '__exceptionFilters__',
} as const;

/** Renamed like everything else by a bundler that takes us in, unless it keeps names. */
class OutboxNameWitness {}
const OURS_ARE_RENAMED = OutboxNameWitness.name !== 'OutboxNameWitness';

export function refuseScoped({ prototype, method }: MarkedMethod): never {
  misconfigured(
    `${nameOf(prototype, method)} handles outbox events, but its provider is not a singleton.`,
    'A handler runs without a request: make the provider (and what it injects) default-scoped, and get the rest through ModuleRef.',
  );
}

/** Nest applies these to requests, and a handler is none: who wrote them expects what would not happen. */
export function refuseEnhanced({ prototype, method }: MarkedMethod): void {
  const targets = [prototype.constructor, (prototype as Record<string, unknown>)[method]];
  const found = Object.entries(ENHANCERS).filter(([, key]) => targets.some((target) => has(key, target)));
  if (found.length === 0) return;
  const decorators = found.map(([decorator]) => decorator).join(', ');
  misconfigured(
    `${nameOf(prototype, method)} handles outbox events, and Nest applies ${decorators} to requests only.`,
    'Call in the handler what they do, such as outbox.transaction(…); or move it into a provider that has none of them.',
  );
}

/**
 * A message is made into the class that its handler names: of two, one would be wrong, and which one is enqueued nobody knows
 * before it happens. Two of one name are one class that was loaded twice.
 * @param first the first handler of each type and version
 */
export function refuseTwinEvent(handler: FoundHandler, first: Map<string, FoundHandler>): void {
  const { eventClass, type, version, name } = handler;
  if (eventClass === undefined) return;
  const identity = `${version} ${type}`;
  const other = first.get(identity);
  first.set(identity, other ?? handler);
  if (other?.eventClass === undefined || other.eventClass.name === eventClass.name) return;
  misconfigured(
    `${other.eventClass.name} (of ${other.name}) and ${eventClass.name} (of ${name}) are both event '${type}' version ${version}.`,
    `Give one of them another type or version; or let one of the handlers take the plain message: @OnOutboxEvent({ type: '${type}', version: ${version} }).`,
    'DUPLICATE_EVENT_TYPE',
  );
}

/**
 * What has run for a message is known by ids. Of two classes of one name a bundler renames one, and which one that is hangs on
 * the order of the imports: the next build may exchange the two ids, and then one handler counts as having been called.
 * @param earlier handlers of each type
 */
export function refuseExchangeable(handler: FoundHandler, earlier: Map<string, FoundHandler[]>): void {
  const { stem, id, type, version } = handler;
  const others = earlier.get(type) ?? [];
  earlier.set(type, [...others, handler]);
  const isTwin = (other: FoundHandler): boolean =>
    other.id !== id && overlap(other.version, version) && mayBeOneName(other.stem, stem);
  const twin = others.find(isTwin);
  if (twin === undefined) return;
  misconfigured(
    `The handlers '${twin.id}' (in ${twin.module}) and '${id}' (in ${handler.module}) of '${type}' have no id, and a bundler gives such names to classes of one name: its next build may exchange them.`,
    `Give both an id that stays, such as the ones they have now: @OnOutboxEvent(Event, { id: '${id}' }).`,
  );
}

/** Bundlers number classes of one name (`Mailer2`, `Mailer$1`). Of a minified name nothing is left. */
export function stemOf({ prototype, method, id }: MarkedMethod): NameStem | undefined {
  if (id !== undefined) return undefined;
  const { name } = prototype.constructor;
  return { className: name.length <= MINIFIED ? '' : name.replace(/[_$]?\d+$/, ''), method };
}

/** They also put the name of the file before one of the two (`billing_Mailer`). */
function mayBeOneName(one: NameStem | undefined, other: NameStem | undefined): boolean {
  if (one === undefined || other === undefined || one.method !== other.method) return false;
  const [a, b] = [one.className, other.className];
  return a === b || a.endsWith(`_${b}`) || b.endsWith(`_${a}`);
}

/** @throws where the name of the class may be another one's in the next build */
export function idOf({ prototype, method, id }: MarkedMethod, oursAreRenamed: boolean = OURS_ARE_RENAMED): string {
  if (id !== undefined) return id;
  const name = nameOf(prototype, method);
  if (!isMadeUp(prototype.constructor.name, oursAreRenamed)) return name;
  misconfigured(
    `The handler '${name}' has no id, and the name of its class, '${prototype.constructor.name}', looks like one that a minifier gave: the next build may give it to another class, which would then count as having been called.`,
    "Give it an id: @OnOutboxEvent(Event, { id: 'mail' }); or build with the names kept (esbuild keepNames, terser and SWC keep_classnames).",
  );
}

export function nameOf(prototype: object, method: string): string {
  return `${prototype.constructor.name}.${method}`;
}

/** Characters that a minified name has at most. */
const MINIFIED = 3;

/** Of names with three characters, people write those like `Job` or `SMS`. Nobody writes `Mailer$1`. */
function isMadeUp(name: string, oursAreRenamed: boolean): boolean {
  if (name.length < MINIFIED || /\$\d+$/.test(name)) return true;
  return name.length === MINIFIED && (oursAreRenamed || !/^[A-Z]([a-z]{2}|[A-Z]{2})$/.test(name));
}

function has(key: string, target: unknown): boolean {
  const reflect = Reflect as { getMetadata?(key: string, target: object): unknown };
  return typeof target === 'function' && reflect.getMetadata?.(key, target) !== undefined;
}
