import type { NewMessage } from '../outbox-message.js';
import type { OutboxEvents, OutboxHooks } from '../observe/events.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { OutboxHealth } from '../observe/health.js';
import type { OutboxStats } from '../observe/stats.js';
import type { Roles } from '../store/outbox-store.js';
import type { DataLayer } from '../transaction/data-layer.js';
import type { TransportWrapper } from '../options/transport-wrapper.js';
import type { EnqueueTrace } from './tracing.js';

/** The parts of an `OutboxService`. The module builds them. */
export interface EnqueueRuntime {
  readonly options: ResolvedOptions;
  /** The application's; transactions of any other database are refused. */
  readonly dataLayer: DataLayer;
  readonly store: Roles<'writer' | 'admin' | 'operators' | 'inspect' | 'setup' | 'leases' | 'diagnose'>;
  /** Name → number, as registered in the store; may be filled after construction, before the first enqueue. */
  readonly transportIds: ReadonlyMap<string, number>;
  readonly hooks: OutboxHooks;
  readonly events: OutboxEvents;
  /** Follows each enqueue; absent: nobody does. */
  tracing?: () => EnqueueTrace;
  /** Wrappers that a starting relay puts around its transports, the last one outermost. */
  readonly wrappers?: TransportWrapper[];
  readonly report: { stats(): Promise<OutboxStats>; health(): Promise<OutboxHealth> };
  /**
   * Messages may be waiting: after a commit, and after an operator's action. Must return at once.
   * @param ms milliseconds until the first of them falls due, by this process's clock
   */
  workAppeared(where?: 'ready' | 'parked', ms?: number): void;
  /** For tests: what was written in a transaction that is still open. */
  onEnqueued?(messages: readonly NewMessage[]): void;
  /** Ids of `onEnqueued` that are gone again, with their savepoint or their transaction. */
  onRolledBack?(ids: readonly string[]): void;
}
