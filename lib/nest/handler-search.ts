import type { ModulesContainer } from '@nestjs/core';
import { eventMetadata } from '../enqueue/events/event-metadata.js';
import { misconfigured } from '../outbox.errors.js';
import { handlerMarks, markedByOthers, type MarkedBy } from '../enqueue/events/on-outbox-event.decorator.js';
import { idOf, nameOf, refuseEnhanced, refuseScoped, stemOf, type FoundHandler } from './handler-checks.js';

type NestModule = NonNullable<ReturnType<ModulesContainer['get']>>;
type Wrapper = NestModule extends { providers: Map<unknown, infer W> } ? W : never;

/** Finds the `@OnOutboxEvent` methods of an application, once per instance: at its start, and in modules that are loaded later. */
export class HandlerSearch {
  /** Whose handlers were found. */
  private readonly known = new WeakSet<Wrapper>();
  private readonly instances = new WeakSet<object>();
  private readonly seen = new WeakSet<NestModule>();
  /** Modules in which something was still being made, perhaps before their providers were there. */
  private open: NestModule[] = [];
  /** Of the container at the last look. */
  private size = -1;

  constructor(private readonly modules: ModulesContainer) {}

  /** Whether a module came, or was still being made at the last look. */
  get isStale(): boolean {
    return this.modules.size !== this.size || this.open.length > 0;
  }

  /** @returns what is new. Tells of each handler that cannot be called. */
  look(refused: (error: unknown) => void): FoundHandler[] {
    const came = [...this.modules.values()].filter((module) => !this.seen.has(module));
    for (const module of came) this.seen.add(module);
    this.size = this.modules.size;
    const before = this.open;
    this.open = [];
    return [...before, ...came].flatMap((module) => this.lookInto(module, refused));
  }

  private lookInto(module: NestModule, refused: (error: unknown) => void): FoundHandler[] {
    const provided = [...module.providers.values(), ...module.controllers.values()] as Wrapper[];
    const all = provided.filter((wrapper) => !wrapper.isAlias);
    const made = all.filter(isMade);
    if (made.length < all.length) this.open.push(module);
    const found: FoundHandler[] = [];
    for (const wrapper of made.filter((one) => !this.known.has(one))) {
      this.known.add(wrapper);
      try {
        found.push(...this.handlersOf(wrapper, module));
      } catch (error) {
        refused(error);
      }
    }
    return found;
  }

  private handlersOf(wrapper: Wrapper, module: NestModule): FoundHandler[] {
    const place = String((module.metatype as { name?: string } | undefined)?.name);
    return candidates(wrapper).flatMap(({ instance, prototype }) => {
      if (instance !== undefined && this.instances.has(instance)) return [];
      const own = marksOf(prototype);
      const isOwn = (one: MarkedBy) => own.some((it) => it.method === one.method && it.mark.event === one.mark.event);
      const others = markedByOthers(this.modules).flatMap((of) => of(prototype));
      const marks = [...own, ...others.filter((one) => !isOwn(one))];
      for (const { method, mark } of marks) {
        const marked = { prototype, method, id: mark.id };
        if (instance === undefined) refuseScoped(marked);
        refuseEnhanced(marked);
      }
      if (instance === undefined || marks.length === 0) return [];
      this.instances.add(instance);
      return marks.map(({ method, mark }) => toHandler({ instance, prototype, method, mark, module: place }));
    });
  }
}

/**
 * What may have marked methods: an instance, each of an array that a factory returns, or the class of what is made per request.
 * Of a factory that is called per request, which nobody calls here, that is the class under which it provides.
 */
function candidates(wrapper: Wrapper): { instance: object | undefined; prototype: object }[] {
  if (!isStatic(wrapper)) {
    const { metatype, inject, token } = wrapper as { metatype: unknown; inject: unknown; token: unknown };
    const made = inject === undefined || inject === null ? metatype : token;
    const prototype: unknown = typeof made === 'function' ? made.prototype : undefined;
    return isObject(prototype) ? [{ instance: undefined, prototype }] : [];
  }
  const made: unknown = wrapper.instance;
  return (Array.isArray(made) ? (made as unknown[]) : [made]).flatMap((instance) => {
    const prototype: unknown = isObject(instance) ? Object.getPrototypeOf(instance) : null;
    return isObject(instance) && isObject(prototype) ? [{ instance, prototype }] : [];
  });
}

function isStatic(wrapper: Wrapper): boolean {
  return !wrapper.isTransient && wrapper.isDependencyTreeStatic();
}

/**
 * Whether its constructor or factory has run: a lazily loaded module is in the container before that. Nest keeps it beside
 * the instance, under a key that it exports to nobody: its own getter uses it.
 */
function isMade(wrapper: Wrapper): boolean {
  if (!isStatic(wrapper)) return true;
  let made = true;
  Reflect.get(Object.getPrototypeOf(wrapper) as object, 'instance', {
    getInstanceByContextId(context: Parameters<Wrapper['getInstanceByContextId']>[0]) {
      const host = wrapper.getInstanceByContextId(context);
      made = host.isResolved === true;
      return host;
    },
  });
  return made;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Methods along the prototype chain, the nearest of a name only; getters are not touched. */
function marksOf(prototype: object): MarkedBy[] {
  const seen = new Set<string>();
  const marks: MarkedBy[] = [];
  for (
    let level: object | null = prototype;
    level !== null && level !== Object.prototype;
    level = Object.getPrototypeOf(level) as object | null
  ) {
    for (const method of Object.getOwnPropertyNames(level)) {
      if (seen.has(method)) continue;
      seen.add(method);
      marks.push(...handlerMarks(level, method).map((mark) => ({ method, mark })));
    }
  }
  return marks;
}

interface Place extends MarkedBy {
  readonly instance: object;
  readonly prototype: object;
  readonly module: string;
}

function toHandler({ instance, prototype, method, mark, module }: Place): FoundHandler {
  const { event, id } = mark;
  const name = nameOf(prototype, method);
  const eventClass = typeof event === 'function' ? event : undefined;
  const metadata = eventClass === undefined ? undefined : eventMetadata(eventClass);
  if (typeof event === 'function' && metadata === undefined) {
    const hint = 'Decorate the class, or handle a plain message: @OnOutboxEvent({ type }).';
    misconfigured(`${name} handles ${event.name}, which has no @OutboxEvent.`, hint, 'UNKNOWN_EVENT');
  }
  const { type, version } = metadata ?? (event as { type: string; version?: number });
  return {
    name,
    module,
    id: idOf({ prototype, method, id }),
    stem: stemOf({ prototype, method, id }),
    type,
    version,
    eventClass,
    metadata,
    call: (revived, message, context) =>
      (instance as Record<string, (...args: unknown[]) => unknown>)[method]?.(revived, message, context),
  };
}
