import { decodeHeaders } from '../../message/headers.js';
import { isEncrypted } from '../../outbox-message.js';
import { printable } from '../../observe/redact/printable.js';
import type { EditableContent } from '../../store/edit.js';

/** One thing that an edit changes. No value of a header and nothing of a payload is in it. */
export interface EditDifference {
  /** `header x-tenant` names the header. */
  readonly what: 'payload' | 'content type' | 'topic' | 'type' | `header ${string}`;
  /** `null`: it was not there. */
  readonly before: string | null;
  /** `null`: it is removed. */
  readonly after: string | null;
}
type Diffed = EditableContent;

/** What differs between two versions, for people. */
export function differences(before: Diffed, after: Diffed): EditDifference[] {
  const found: EditDifference[] = [];
  for (const [what, name] of TEXTS)
    if (before[name] !== after[name])
      found.push({ what, before: printable(before[name]), after: printable(after[name]) });
  found.push(...headersDiffer(headersOf(before), headersOf(after)));
  // Encryption gives other bytes for the same payload: what was not touched is the same Buffer.
  if (before.payload !== after.payload && !isSame(before.payload, after.payload))
    found.push({ what: 'payload', before: sizeOf(before), after: sizeOf(after) });
  return found;
}

const TEXTS = [
  ['topic', 'topic'],
  ['type', 'type'],
  ['content type', 'contentType'],
] as const;

function headersDiffer(before: Values, after: Values): EditDifference[] {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => ({
      what: `header ${printable(name)}` as const,
      before: before.has(name) ? '***' : null,
      after: after.has(name) ? '***' : null,
    }));
}

type Values = ReadonlyMap<string, string>;

/** Name → its value as it is stored. What is no JSON is one header without a name. */
function headersOf({ headers }: Pick<EditableContent, 'headers'>): Values {
  if (headers === null) return new Map();
  try {
    decodeHeaders(headers);
    const stored = JSON.parse(headers) as Record<string, unknown>;
    return new Map(Object.entries(stored).map(([name, value]) => [name, JSON.stringify(value)]));
  } catch {
    return new Map([['(unreadable)', headers]]);
  }
}

const isSame = (a: Buffer | null, b: Buffer | null): boolean => a !== null && b !== null && a.equals(b);

function sizeOf({ payload, options }: EditableContent): string {
  if (payload === null) return 'none';
  return `${payload.byteLength} bytes${isEncrypted({ optionsJson: options }) ? ', encrypted' : ''}`;
}
