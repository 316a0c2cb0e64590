import { inspect, types } from 'node:util';

/** Values that are looked at: more than an error has with its request and its socket, few enough for some 50 ms. */
const MOST_VALUES = 50_000;
/** What errors may have of their class. */
const OF_ERRORS = ['name', 'message', 'stack', 'cause', 'errors', 'code'] as const;
const ON_ONE_LINE = { depth: 8, maxArrayLength: null, maxStringLength: null, breakLength: Infinity, compact: true };
const UTF8 = new TextDecoder();

/**
 * Every text that somebody may print of a value, as it is: `inspect` and JSON indent, escape and cut texts. A getter that
 * neither of them calls is not called here, as it may do anything: TypeORM's load a relation.
 * @throws what a getter throws, and where there is more than can be looked at
 */
export function textsOf(root: unknown): string[] {
  const texts: string[] = [];
  const seen = new Set<unknown>();
  const waiting: unknown[] = [];
  let count = 0;
  const add = (value: unknown): void => {
    if ((count += 1) > MOST_VALUES) throw tooMuch();
    waiting.push(value);
  };
  add(root);
  while (waiting.length > 0) {
    const value = waiting.pop();
    if (!isObject(value)) texts.push(typeof value === 'symbol' ? (value.description ?? '') : String(value));
    else if (!seen.has(value)) {
      seen.add(value);
      open(value, add);
    }
  }
  return texts;
}

function open(value: object, add: (part: unknown) => void): void {
  if (ArrayBuffer.isView(value)) return add(UTF8.decode(value as DataView));
  if (types.isAnyArrayBuffer(value)) return add(UTF8.decode(new Uint8Array(value)));
  if (types.isBoxedPrimitive(value)) return add(value.valueOf());
  if (types.isMap(value)) {
    for (const entry of value) entry.forEach(add);
  } else if (types.isSet(value)) value.forEach((member) => add(member));
  if (typeof value !== 'function') {
    if ('message' in value) for (const name of OF_ERRORS) add((value as Record<string, unknown>)[name]);
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === 'function') add(toJSON.call(value));
    if (isOpaque(value)) add(inspect(value, ON_ONE_LINE));
  }
  openProperties(value, add);
}

function openProperties(value: object, add: (part: unknown) => void): void {
  // Not one by one: to name each member of a long list takes longer than all the rest.
  if (Array.isArray(value) && value.length > MOST_VALUES) throw tooMuch();
  for (const name of Reflect.ownKeys(value)) {
    const property = Object.getOwnPropertyDescriptor(value, name);
    if (property === undefined) continue;
    // Nobody prints the `prototype` of a class, whose getters throw on anything but an instance.
    if (!property.enumerable && (property.get !== undefined || typeof value === 'function')) continue;
    add(name);
    add(property.get === undefined ? property.value : Reflect.get(value, name));
  }
}

/** What only `inspect` sees, or sees otherwise. */
function isOpaque(value: object): boolean {
  const says = typeof (value as Record<symbol, unknown>)[inspect.custom] === 'function';
  return says || types.isPromise(value) || types.isRegExp(value) || isIterator(value);
}

function isIterator(value: object): boolean {
  return types.isMapIterator(value) || types.isSetIterator(value);
}

function tooMuch(): RangeError {
  return new RangeError('There is more than can be looked at.');
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
