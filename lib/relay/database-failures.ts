import { errorText } from '../observe/redact/error-text.js';
import type { Clock } from '../time/clock.js';

/** What a relay asks of the database again and again; each can fail while the others do not. */
export type DatabaseOperation = 'lease' | 'fetch' | 'take' | 'settle' | 'park' | 'deadLetter';

/** One of them that fails. */
export interface FailingOperation {
  readonly operation: DatabaseOperation;
  /** `null`: of all transports together. */
  readonly transport: string | null;
  /** Milliseconds since it failed for the first time in a row. */
  readonly failingFor: number;
  /** The last failure. */
  readonly error: string;
}

/** What fails, each by itself: a heartbeat that succeeds says nothing of a read. */
export class DatabaseFailures {
  /** By operation and transport: monotonic. */
  private readonly failing = new Map<string, Omit<FailingOperation, 'failingFor'> & { readonly since: number }>();

  constructor(readonly clock: Pick<Clock, 'monotonic'>) {}

  /** @returns for how long it has failed, milliseconds */
  failed(operation: DatabaseOperation, transport: string | null, error: unknown): number {
    const now = this.clock.monotonic();
    const since = this.failing.get(`${operation} ${transport}`)?.since ?? now;
    this.failing.set(`${operation} ${transport}`, { operation, transport, since, error: errorText(error) });
    return now - since;
  }

  succeeded(operation: DatabaseOperation, transport: string | null): void {
    if (this.failing.size > 0) this.failing.delete(`${operation} ${transport}`);
  }

  /** Nothing is asked any more. */
  clear(): void {
    this.failing.clear();
  }

  list(): FailingOperation[] {
    const now = this.clock.monotonic();
    return [...this.failing.values()].map(({ since, ...each }) => ({ ...each, failingFor: now - since }));
  }
}
