import type { OutboxHooks } from '../../observe/events.js';
import type { OutboxReason } from '../../observe/reason-codes.js';
import type { Acquired } from '../../store/lease-store.js';

/** Who uses the leases of a transport. They come, last and go by the heartbeat, while nobody of the relay waits for them: so it is told. */
export interface LeaseListener {
  /** Buckets of this transport are ours now. */
  gained(leases: readonly Acquired[]): void;
  /** The leases are good for longer: what had to wait for that may go. */
  renewed(): void;
  /** No longer ours: expired, or taken over. Nothing may be written for them but success. */
  lost(buckets: readonly number[]): void;
  /** Asked to hand over: resolves to those of these buckets of which nothing is unresolved, as soon as there are some. */
  drain(buckets: readonly number[]): Promise<readonly number[]>;
  /** False while the transport's circuit stays open: this may be the only instance that cannot reach the broker. */
  readonly participates: boolean;
}

/** What the leases of a relay tell it as they go, and what they ask it. */
export interface LeaseHooks {
  readonly emit: OutboxHooks['emit'];
  /** Buckets were given back, or are to be: the next pass has something to do. */
  readonly freed: () => void;
  /** Others have something to look at: who is there, who takes part, or what is free. */
  readonly changed: () => void;
  /** Why this instance does not publish all that it should. */
  readonly troubles: () => readonly OutboxReason[];
  /** Whether `lookAgain` is called when others have changed something; else that is found by looking. */
  readonly hears: () => boolean;
}

export interface Held {
  epoch: string;
  /** Milliseconds since its statement was sent. */
  age: () => number;
  /** Leases in a row before this one that ran out; 0 once this one has lasted. */
  crashes: number;
  /** When it was taken, by the monotonic clock. */
  readonly since: number;
}

export interface LeaseSettings {
  readonly lease: number;
  /** Those that hold messages, from 0; the schema may have more. */
  readonly buckets: number;
  readonly leader: boolean;
  readonly every: number;
  /** Milliseconds for which a lease must be good when a publish begins. */
  readonly need: number;
}
