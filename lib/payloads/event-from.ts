import { isThenable } from '../message/is-thenable.js';
import { OutboxError } from '../outbox.errors.js';

/** Version → what makes a payload of it one of the next version, or a promise of one. */
export type UpcastSteps = Readonly<Record<number, (payload: never) => unknown>>;

/** What a payload becomes. */
export interface Revived {
  /** `undefined`: it stays what it is. */
  readonly eventClass: { readonly prototype: object } | undefined;
  readonly metadata:
    | { readonly upcast: UpcastSteps | undefined; readonly revive: ((payload: never) => unknown) | undefined }
    | undefined;
}

/** The event that a handler gets for a payload of this version; at once, where nothing of that takes time. */
export function eventFrom(payload: unknown, version: number, { eventClass, metadata }: Revived): unknown {
  return andThen(upcasted(metadata?.upcast, version, payload), (current) => {
    if (metadata?.revive !== undefined) return metadata.revive(current as never);
    return eventClass === undefined || !isRecord(current) ? current : withMembers(eventClass.prototype, current);
  });
}

/** The payload in the version of the class; at once, where no step takes time. */
function upcasted(steps: UpcastSteps | undefined, version: number, payload: unknown): unknown {
  const step = steps?.[version];
  if (step === undefined) return payload;
  return andThen(step(payload as never), (next) => {
    // An arrow function whose braces were meant as an object.
    if (next === undefined)
      throw new OutboxError('INVALID_MESSAGE', `The step of upcast from version ${version} returned undefined.`);
    return upcasted(steps, version + 1, next);
  });
}

function withMembers(prototype: object, payload: object): unknown {
  const event = Object.create(prototype) as Record<string, unknown>;
  for (const [name, value] of Object.entries(payload)) {
    if (!(name in prototype)) event[name] = value;
    // A key `__proto__` in a payload must stay a key, and calls no setter.
    else if (!isMethod(prototype, name))
      Object.defineProperty(event, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return event;
}

/** A handler calls `event.isPaid()`, and whoever wrote the payload does not choose what that is. Calls no getter. */
function isMethod(prototype: object | null, name: string): boolean {
  for (let at = prototype; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const found = Object.getOwnPropertyDescriptor(at, name);
    if (found !== undefined) return typeof found.value === 'function';
  }
  return false;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** At once, where the value is there; else when it is. */
export const andThen = (value: unknown, next: (value: unknown) => unknown): unknown =>
  isThenable(value) ? Promise.resolve(value).then(next) : next(value);
