import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { HeaderValue, OutboxMessage } from '../../outbox-message.js';
import { OutboxMessageError } from '../../outbox.errors.js';
import type { Envelope, Headers } from '../envelope.js';

export type SqsAttribute =
  | { readonly DataType: 'String'; readonly StringValue: string }
  | { readonly DataType: 'Binary'; readonly BinaryValue: Uint8Array };

/** A message as SQS takes it. */
export interface SqsEntry {
  readonly MessageBody: string;
  readonly MessageAttributes: Readonly<Record<string, SqsAttribute>>;
  readonly MessageGroupId?: string;
  readonly MessageDeduplicationId?: string;
}

/** Attributes that the outbox writes, whatever the caller says. */
export const OUTBOX_ATTRIBUTES = ['id', 'type', 'version', 'time', 'content-type', 'key', 'body-encoding', 'headers'];
const [STANDARD, ENCODING, REST] = [OUTBOX_ATTRIBUTES.slice(0, 6), 'body-encoding', 'headers'];
/** Of one message. */
const MOST_ATTRIBUTES = 10;

/** @throws OutboxMessageError when it takes more than `maxBytes` */
export function entryOf(
  message: OutboxMessage,
  { envelope, maxBytes, isFifo }: { readonly envelope: Envelope; readonly maxBytes: number; readonly isFifo: boolean },
): { readonly entry: SqsEntry; readonly bytes: number } {
  const { body, encoding } = bodyOf(message);
  const headers = envelope(message);
  const { attributes, bytes: ofAttributes } = attributesOf(headers, message.key, encoding);
  const bytes = Buffer.byteLength(body) + ofAttributes;
  if (bytes > maxBytes)
    throw new OutboxMessageError(
      'INVALID_MESSAGE',
      `The message has ${bytes} bytes as SQS counts them${encoding === 'base64' ? ', its payload in base64' : ''}; maxMessageBytes is ${maxBytes}.`,
    );
  const { id, key } = message;
  const entry = { MessageBody: body, MessageAttributes: attributes };
  return {
    entry: isFifo ? { ...entry, MessageGroupId: token(key ?? id), MessageDeduplicationId: token(id) } : entry,
    bytes,
  };
}

/** SQS takes text alone, of the characters of XML 1.0, and none that is empty. */
function bodyOf({ body }: OutboxMessage): { readonly body: string; readonly encoding?: string } {
  if (body === null) return { body: 'null', encoding: 'tombstone' };
  if (body.length === 0) return { body: ' ', encoding: 'empty' };
  const text = typeof body === 'string' ? body : isUtf8(body) ? body.toString() : undefined;
  if (text !== undefined && isText(text)) return { body: text };
  return { body: Buffer.from(body as string).toString('base64'), encoding: 'base64' };
}

/** Headers as attributes, and what cannot be one, or is one too many, as JSON in the attribute `headers`. */
export function attributesOf(
  headers: Headers,
  key: string | null,
  encoding: string | undefined,
): { readonly attributes: Record<string, SqsAttribute>; readonly bytes: number } {
  if (key !== null) headers['key'] = key;
  const attributes: Record<string, SqsAttribute> = {};
  const rest: [string, HeaderValue][] = [];
  let bytes = 0;
  const add = (name: string, attribute: SqsAttribute): void => {
    bytes += sizeOf(name, attribute);
    attributes[name] = attribute;
  };
  if (encoding !== undefined) add(ENCODING, textual(encoding));
  const names = namesOf(headers);
  let room = MOST_ATTRIBUTES - (encoding === undefined ? 0 : 1);
  if (names.length > room || !names.every((name) => attributeOf(name, headers[name]!) !== undefined)) room -= 1;
  for (const name of names) {
    const attribute = room > 0 ? attributeOf(name, headers[name]!) : undefined;
    if (attribute === undefined) rest.push([name, headers[name]!]);
    else {
      room -= 1;
      add(name, attribute);
      if (isTrace(headers, name)) keep(attributes, name);
    }
  }
  if (rest.length > 0) add(REST, textual(jsonOf(rest)));
  return { attributes, bytes };
}

/** Those of the outbox first, then those of a trace, which libraries look for by name. */
function namesOf(headers: Headers): string[] {
  const all = Object.keys(headers);
  const others = all.filter((name) => !STANDARD.includes(name));
  const traces = others.filter((name) => isTrace(headers, name));
  return [
    ...STANDARD.filter((name) => headers[name] !== undefined),
    ...traces,
    ...(traces.length === 0 ? others : others.filter((name) => !traces.includes(name))),
  ];
}

/** The envelope guards these against a tracer of the client, which would put the relay's trace in the place of the request's. */
function isTrace(headers: Headers, name: string): boolean {
  return Object.getOwnPropertyDescriptor(headers, name)?.get !== undefined;
}
function keep(attributes: Record<string, SqsAttribute>, name: string): void {
  const value = attributes[name]!;
  Object.defineProperty(attributes, name, { get: () => value, set: nothing, enumerable: true });
}
function nothing(): void {}

function attributeOf(name: string, value: HeaderValue): SqsAttribute | undefined {
  if (!isName(name) || value.length === 0) return undefined;
  if (typeof value === 'string') return isText(value) ? textual(value) : undefined;
  return value instanceof Uint8Array ? { DataType: 'Binary', BinaryValue: value } : undefined;
}

const textual = (value: string): SqsAttribute => ({ DataType: 'String', StringValue: value });

function isName(name: string): boolean {
  return /^(?!\.|aws\.|amazon\.|__proto__$)(?!.*\.\.)[\w.-]{1,256}(?<!\.)$/i.test(name);
}

/** What is no character of XML 1.0. */
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\0-\x08\v\f\x0e-\x1f\ufffe\uffff\p{Surrogate}]/u;

function isText(text: string): boolean {
  return !FORBIDDEN.test(text);
}

/** Bytes as `{ "base64": "…" }`. JSON.stringify escapes what XML refuses, but for two characters. */
function jsonOf(headers: readonly (readonly [string, HeaderValue])[]): string {
  const plain = (one: string | Uint8Array): unknown =>
    typeof one === 'string' ? one : { base64: Buffer.from(one).toString('base64') };
  const all = headers.map(([name, value]) => {
    const many = Array.isArray(value) ? (value as readonly (string | Uint8Array)[]) : undefined;
    return `${JSON.stringify(name)}:${JSON.stringify(many?.map(plain) ?? plain(value as string))}`;
  });
  return `{${all.join(',')}}`.replace(/[\ufffe\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16)}`);
}

/** As SQS counts it: name, type and value. */
function sizeOf(name: string, attribute: SqsAttribute): number {
  const value = attribute.DataType === 'String' ? attribute.StringValue : attribute.BinaryValue;
  return Buffer.byteLength(name) + attribute.DataType.length + Buffer.byteLength(value);
}

/** What a group and a deduplication id may be. Of another key its hash: the same for each message of that key. */
function token(text: string): string {
  return /^[!-~]{1,128}$/.test(text) ? text : createHash('sha256').update(text).digest('hex');
}
