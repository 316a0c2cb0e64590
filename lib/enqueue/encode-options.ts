import type { MessageOptions } from '../outbox-message.js';
import type { Draft } from './draft.js';
import { refuse } from '../options/refuse.js';
import { findJsonLoss, pathText } from '../message/lossless.js';
import { isPlainObject } from './plain-object.js';
import { typeName } from '../options/text-checks.js';

/** Options are a few numbers and names; what is larger belongs into headers or payload. */
export const MAX_OPTIONS_BYTES = 16 * 1024;

export interface EncodedOptions {
  readonly json: string | null;
  /** The broker-specific ones. */
  readonly map: MessageOptions;
}
const NONE: MessageOptions = Object.freeze({});

/**
 * Broker-specific settings by kind of transport, later sources overruling earlier ones kind by kind and setting by setting,
 * and `$retry`, which the relay reads: names with `$` belong to the outbox. The limits of a transport check what its kind holds.
 */
export function encodeOptions({ subject, options, retry }: Draft): EncodedOptions {
  let merged: Record<string, unknown> | undefined;
  for (const source of options) {
    if (source === undefined) continue;
    if (!isPlainObject(source)) refuse(subject, `options must be a plain object, not ${typeName(source)}`);
    merged ??= Object.create(null) as Record<string, unknown>;
    merge(merged, source, subject);
  }
  if (merged !== undefined) {
    const lost = findJsonLoss(merged);
    if (lost !== undefined) refuse(subject, `${pathText('options', lost.path)} ${lost.problem}`);
  }
  if (merged === undefined && retry === undefined) return { json: null, map: NONE };
  const json = JSON.stringify(retry === undefined ? merged : { ...merged, $retry: retry });
  if (json.length > MAX_OPTIONS_BYTES) refuse(subject, `options have more than ${MAX_OPTIONS_BYTES} bytes`);
  return { json: json === '{}' ? null : json, map: merged ?? NONE };
}

function merge(into: Record<string, unknown>, source: MessageOptions, subject: string): void {
  for (const kind of Object.keys(source)) {
    if (kind.startsWith('$')) refuse(subject, `options.${kind.slice(0, 40)}: names that begin with $ are reserved`);
    const value = source[kind];
    if (value === undefined) continue;
    into[kind] = isPlainObject(into[kind]) && isPlainObject(value) ? { ...into[kind], ...value } : value;
  }
}
