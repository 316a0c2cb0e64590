import type * as Outbox from '../../index.js';

/** An application whose providers are there, and how it ends. */
export interface Opened {
  /** The package as the application has it. */
  readonly outbox: typeof Outbox;
  /** `undefined`: the application has no such provider. */
  get(token: unknown): unknown;
  close(): Promise<void>;
}
