/** SEAM: turns bytes of one content type into what handlers get. */
export interface PayloadDeserializer {
  /** `text/csv`; parameters and case do not count. */
  readonly contentType: string;
  /** What the handlers get, or a promise of it. What it throws is a failure of the message. */
  deserialize(bytes: Uint8Array): unknown;
}

/** SEAM: turns payloads into bytes at enqueue, and back for in-process handlers. The relay never parses a payload. */
export interface Serializer extends PayloadDeserializer {
  /** Stored with each message and published with it. */
  readonly contentType: string;
  /** Not async: it runs in the caller's transaction. What it returns is copied, so that it may use one buffer again and again. */
  serialize(payload: unknown): Uint8Array;
}

/** @returns the first that reads the content type; `undefined`: nobody does, and the bytes stay what they are */
export function deserializerFor(
  deserializers: readonly PayloadDeserializer[],
  contentType: string,
): PayloadDeserializer | undefined {
  const wanted = mediaType(contentType);
  return deserializers.find((one) => {
    const own = mediaType(one.contentType);
    // An event may give its JSON a name of its own, such as `application/vnd.shop.order+json`.
    return own === wanted || (JSON_TYPE.test(own) && JSON_TYPE.test(wanted));
  });
}

/** Without parameters: `Text/CSV; charset=utf-8` is `text/csv`. */
export const mediaType = (contentType: string): string => (contentType.split(';')[0] as string).trim().toLowerCase();

/** With parameters or without. */
export const JSON_TYPE = /^[^;]*[/+]json\s*(;|$)/i;
export const TEXT_TYPE = /^text\//i;
