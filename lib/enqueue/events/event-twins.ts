// eslint-disable-next-line typescript/no-unsafe-function-type
export type EventClass<T = object> = Function & { readonly prototype: T };

/** Shared by every copy of this package in a process: of each type and version, the classes that were decorated, by name. */
const CLASSES = Symbol.for('nestjs-outbox:event-names');
type Named = Map<string, WeakRef<EventClass>>;
/** Names of one event that are kept; the oldest goes. */
const MAX_NAMES = 8;

function classes(): Map<string, Named> {
  const shared = globalThis as { [CLASSES]?: Map<string, Named> };
  return (shared[CLASSES] ??= new Map());
}

interface Identity {
  readonly type: string;
  readonly version: number;
}

/** Every class that was decorated in this process and is still there. */
export function eventClasses(): EventClass[] {
  return [...classes().values()].flatMap((named) => [...named.values()].flatMap((ref) => ref.deref() ?? []));
}

/** A class of the same name is the same one, loaded again: it takes the other's place. */
export function noteEventClass(eventClass: EventClass, { type, version }: Identity): void {
  const identity = `${version} ${type}`;
  const named = classes().get(identity) ?? new Map<string, WeakRef<EventClass>>();
  named.delete(eventClass.name);
  named.set(eventClass.name, new WeakRef(eventClass));
  if (named.size > MAX_NAMES) named.delete(named.keys().next().value as string);
  classes().set(identity, named);
}

/**
 * Which events have more than one class in this process, one sentence each. Not refused: a class does not say whose it is, and two
 * services in one process may each have their own. An outbox refuses the second one that is enqueued.
 */
export function twinEvents(): string[] {
  return [...classes()].flatMap(([identity, named]) => {
    const names = [...named]
      .filter(([, ref]) => ref.deref() !== undefined)
      .map(([name]) => name || 'an anonymous class');
    if (names.length < 2) return [];
    const at = identity.indexOf(' ');
    const [version, type] = [identity.slice(0, at), identity.slice(at + 1)];
    const [all, others] = names.length === 2 ? ['both', 'other'] : ['all', 'others'];
    return [
      `${names.join(' and ')} are ${all} event '${type}' version ${version}: an outbox that enqueues one of them refuses the ${others} (DUPLICATE_EVENT_TYPE); give each a type or version of its own`,
    ];
  });
}
