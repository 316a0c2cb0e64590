/** SEAM: turns payloads into bytes at enqueue, and back for in-process handlers. The relay never parses a payload. */
export interface Serializer {
  /** Stored with each message and published with it. */
  readonly contentType: string;
  serialize(payload: unknown): Uint8Array;
  deserialize(bytes: Uint8Array): unknown;
}
