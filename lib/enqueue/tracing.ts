import type { MessageHeaders } from '../outbox-message.js';
import type { TransportDefinition } from '../outbox.options.js';

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

/** One call of `enqueue`. */
export interface EnqueueTrace {
  /** @returns headers that the message gets beside the caller's, which win; `undefined`: none. Must not throw */
  created(message: CreatedMessage): Readonly<Record<string, string>> | undefined;
  /** The messages are in the caller's transaction, or the call failed. Must not throw. */
  end(error?: unknown): void;
}

/** SEAM: follows messages from their enqueue to their publish. Nobody does unless it is asked for. */
export interface MessageTracing {
  /** Called in the context of the caller. */
  enqueue(): EnqueueTrace;
  /** @returns the definition that a relay makes the transport of */
  transport(name: string, definition: TransportDefinition): TransportDefinition;
}
