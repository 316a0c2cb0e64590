/** SEAM: turns payloads into bytes at enqueue, and back for in-process handlers. The relay never parses a payload. */
export interface Serializer {
  /** Stored with each message and published with it. */
  readonly contentType: string;
  /** Not async: it runs in the caller's transaction. What it returns is copied, so that it may use one buffer again and again. */
  serialize(payload: unknown): Uint8Array;
  /** What the handlers get, or a promise of it. */
  deserialize(bytes: Uint8Array): unknown;
}
