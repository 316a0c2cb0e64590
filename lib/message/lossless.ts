import { types } from 'node:util';

/** What JSON would change or drop without a word, and where. `path` is outermost first. */
export interface JsonLoss {
  readonly path: (string | number)[];
  readonly problem: string;
}

/** Deeper than any sensible payload: a cycle, found without the cost of remembering ancestors. */
const MAX_DEPTH = 500;

/**
 * The first value that JSON cannot keep, or `undefined`. Members that are `undefined` are left out, as JSON does;
 * `toJSON` is honoured; `-0` becomes `0`. No exceptions and no allocation while everything is fine.
 */
export function findJsonLoss(value: unknown, key: string | number = '', depth = 0): JsonLoss | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? undefined : loss(`is ${value}`);
    case 'object':
      return value === null ? undefined : inObject(value, key, depth);
    case 'bigint':
      return loss('is a BigInt; use a string');
    case 'undefined':
      return loss('is undefined');
    default:
      return loss(`is a ${typeof value}`);
  }
}

/** Prototypes whose objects JSON sees, every one of them: spares an event's class eight questions per message. */
const ordinary = new WeakSet<object>();
/** Told by what an object holds, not by its prototype: `Object.create(Error.prototype)` is no Error, a Date may be invalid. */
const TOLD_BY_CONTENT = [
  Date,
  Error,
  Promise,
  Map,
  Set,
  WeakMap,
  WeakSet,
  RegExp,
  ArrayBuffer,
  Number,
  String,
  Boolean,
];

function inObject(value: object, key: string | number, depth: number): JsonLoss | undefined {
  if (depth > MAX_DEPTH) return loss(`is circular, or nested deeper than ${MAX_DEPTH} levels`);
  const isArray = Array.isArray(value);
  const prototype: unknown = isArray ? null : Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype && !ordinary.has(prototype as object)) {
    if (types.isBoxedPrimitive(value)) return findJsonLoss(value.valueOf(), key, depth + 1);
    const problem = unsupported(value);
    if (problem !== undefined) return loss(problem);
    if (decidedByClass(value)) ordinary.add(prototype as object);
  }
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === 'function') {
    const replaced: unknown = (toJSON as (key: string) => unknown).call(value, String(key));
    return typeof replaced === 'object' && replaced !== null
      ? inReplaced(replaced, key, depth + 1)
      : findJsonLoss(replaced, key, depth + 1);
  }
  return isArray ? inArray(value as readonly unknown[], depth) : inMembers(value, depth);
}

/** What a `toJSON` returned: JSON walks it as it is, and does not ask it for a `toJSON` of its own. */
function inReplaced(value: object, key: string | number, depth: number): JsonLoss | undefined {
  if (types.isBoxedPrimitive(value)) return findJsonLoss(value.valueOf(), key, depth + 1);
  if (types.isDate(value))
    return loss('is a Date that toJSON() returned, and JSON sees nothing of it; return a string');
  const problem = bytesProblem(value) ?? hiddenContent(value);
  if (problem !== undefined) return loss(problem);
  return Array.isArray(value) ? inArray(value, depth) : inMembers(value, depth);
}

/** A `toJSON` of its own speaks for this object only. */
function decidedByClass(value: object): boolean {
  return !Object.hasOwn(value, 'toJSON') && !TOLD_BY_CONTENT.some((each) => value instanceof each);
}

function inMembers(value: object, depth: number): JsonLoss | undefined {
  let empty = true;
  for (const name of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined) continue;
    empty = false;
    const found = findJsonLoss(member, name, depth + 1);
    if (found !== undefined) return within(name, found);
  }
  const problem = empty ? unseen(value) : undefined;
  return problem === undefined ? undefined : loss(problem);
}

/** An empty result is a loss when the object has content behind getters or an iterator: JSON sees own members only. */
function unseen(value: object): string | undefined {
  if (Symbol.iterator in value) return 'is iterable, and JSON sees nothing of it; use an array';
  let prototype = Object.getPrototypeOf(value) as object | null;
  while (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    for (const descriptor of Object.values(Object.getOwnPropertyDescriptors(prototype))) {
      if (descriptor.get !== undefined)
        return 'has only getters, which JSON does not see; add toJSON() or the option `payload`';
    }
    prototype = Object.getPrototypeOf(prototype) as object | null;
  }
  return undefined;
}

function inArray(values: readonly unknown[], depth: number): JsonLoss | undefined {
  for (let i = 0; i < values.length; i++) {
    const found = findJsonLoss(values[i], i, depth + 1);
    if (found !== undefined) return within(i, found);
  }
  return undefined;
}

/** Objects whose content JSON does not see. */
function unsupported(value: object): string | undefined {
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? 'is an invalid Date' : undefined;
  const bytes = bytesProblem(value);
  if (bytes !== undefined) return bytes;
  return typeof (value as { toJSON?: unknown }).toJSON === 'function' ? undefined : hiddenContent(value);
}

/** `Buffer` has a `toJSON`, but nobody wants its result. */
function bytesProblem(value: object): string | undefined {
  return ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)
    ? 'holds bytes; encode them, for example in base64'
    : undefined;
}

function hiddenContent(value: object): string | undefined {
  if (types.isMap(value)) return 'is a Map; use an object or an array';
  if (types.isSet(value)) return 'is a Set; use an array';
  if (types.isWeakMap(value) || types.isWeakSet(value)) return 'is a weak collection';
  if (types.isPromise(value)) return 'is a Promise; await it';
  if (types.isRegExp(value)) return 'is a RegExp';
  if (types.isNativeError(value)) return 'is an Error; its message and stack would be dropped';
  return undefined;
}

function loss(problem: string): JsonLoss {
  return { path: [], problem };
}
function within(name: string | number, found: JsonLoss): JsonLoss {
  found.path.unshift(name);
  return found;
}

const MAX_SEGMENTS = 8;
const MAX_NAME = 40;

/** `payload.items[2].price`, shortened: names of members may be long, and a cycle's path is. */
export function pathText(root: string, path: readonly (string | number)[]): string {
  const shown = path.slice(0, MAX_SEGMENTS).map((part) => {
    if (typeof part === 'number') return `[${part}]`;
    return `.${part.length > MAX_NAME ? `${part.slice(0, MAX_NAME)}…` : part}`;
  });
  return root + shown.join('') + (path.length > MAX_SEGMENTS ? '…' : '');
}
