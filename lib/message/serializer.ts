import type { MessageHeaders } from './headers.js';

/** Whose payload it is. */
export interface SerializerContext {
  readonly type: string;
  readonly version: number;
}
export interface DeserializerContext extends SerializerContext {
  /** The caller's and the serializer's. */
  readonly headers: MessageHeaders;
}
/** Bytes, and what a reader has to know of them. */
export interface SerializedPayload {
  readonly bytes: Uint8Array;
  /** Sent with the message. The serializer names them in its own `headers`. */
  readonly headers?: MessageHeaders | undefined;
}

/** SEAM: turns bytes of one content type into what handlers get. */
export interface PayloadDeserializer {
  /** `text/csv`; parameters and case do not count. */
  readonly contentType: string;
  /** What the handlers get, or a promise of it. What it throws is a failure of the message. */
  deserialize(bytes: Uint8Array, message: DeserializerContext): unknown;
}

/** SEAM: turns payloads into bytes at enqueue, and back for in-process handlers. The relay never parses a payload. */
export interface Serializer extends PayloadDeserializer {
  /** Stored with each message and published with it. */
  readonly contentType: string;
  /** Names of the headers that it gives. `enqueue` refuses them from anybody else, but over a payload of bytes or `null`. */
  readonly headers?: readonly string[] | undefined;
  /** Not async: it runs in the caller's transaction. What it returns is copied, so that it may use one buffer again and again. */
  serialize(payload: unknown, event: SerializerContext): Uint8Array | SerializedPayload;
}

/** @returns the first that reads the content type; `undefined`: nobody does, and the bytes stay what they are */
export function deserializerFor(
  readers: readonly PayloadDeserializer[],
  type: string,
): PayloadDeserializer | undefined {
  const wanted = mediaType(type);
  // An event may give its JSON a name of its own, such as `application/vnd.shop.order+json`.
  return readers.find(({ contentType: own }) => mediaType(own) === wanted || (isJson(own) && isJson(wanted)));
}

/** Without parameters: `Text/CSV; charset=utf-8` is `text/csv`. */
export const mediaType = (contentType: string): string => (contentType.split(';')[0] as string).trim().toLowerCase();
export const isJson = (contentType: string): boolean => /[/+]json$/.test(mediaType(contentType));
export const TEXT_TYPE = /^text\//i;
