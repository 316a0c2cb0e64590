import { Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { SqlDatabase } from '../store/executor.js';
import { systemClock } from '../time/clock.js';
import { Loop } from '../time/loop.js';
import { cleanerOf } from './cleaner.js';
import type { InboxRuntime } from './once.js';

/** Milliseconds. */
const EVERY = 3_600_000;
/** Of many processes that start at once, not all clean at once. */
const FIRST_WITHIN = 60_000;

/** What was opened for an inbox. Cleans while the application runs. */
export class OpenedInbox implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly stopping = new AbortController();
  private readonly loop = new Loop(
    systemClock,
    async () => {
      await cleanerOf(this.runtime).runOnce({ signal: this.stopping.signal });
      return EVERY;
    },
    (error) => {
      new Logger('Inbox').warn(`cleaning failed: ${String((error as Error).message)}`);
      return EVERY;
    },
  );

  constructor(
    readonly runtime: InboxRuntime,
    private readonly database: SqlDatabase,
  ) {}

  onApplicationBootstrap(): void {
    if (this.runtime.options.retention !== null) this.loop.start(Math.random() * FIRST_WITHIN);
  }

  /** The last thing, as that of the outbox: handlers may still run until now. */
  async onApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.loop.stop();
    await this.database.close();
  }
}
