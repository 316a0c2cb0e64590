import type { MessageHeaders } from '../outbox-message.js';

/** A message that is about to be written. */
export interface CreatedMessage {
  readonly id: string;
  readonly type: string;
  readonly topic: string;
  /** Their names. */
  readonly transports: readonly string[];
  /** The caller's own. */
  readonly headers: MessageHeaders;
}

/** SEAM: follows one call of `enqueue`, and begins in the context of its caller. Nobody does unless it is asked for. */
export interface EnqueueTrace {
  /** @returns headers that the message gets beside the caller's, which win; `undefined`: none. Must not throw */
  created(message: CreatedMessage): Readonly<Record<string, string>> | undefined;
  /** The messages are in the caller's transaction, or the call failed. Must not throw. */
  end(error?: unknown): void;
}
