import { Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { systemClock } from '../time/clock.js';
import { Loop } from '../time/loop.js';
import type { OpenedInbox } from './open-inbox.js';

/** Milliseconds. */
const EVERY = 3_600_000;
/** Of many processes that start at once, not all clean at once. */
const FIRST_WITHIN = 60_000;

/** Cleans while the application runs. */
export class InboxLifecycle implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly stopping = new AbortController();
  private readonly loop: Loop;

  constructor(private readonly opened: OpenedInbox) {
    this.loop = new Loop(
      systemClock,
      async () => {
        await opened.cleaner.runOnce({ signal: this.stopping.signal });
        return EVERY;
      },
      (error) => {
        new Logger('Inbox').warn(`cleaning failed: ${String((error as Error).message)}`);
        return EVERY;
      },
    );
  }

  onApplicationBootstrap(): void {
    if (this.opened.options.retention !== null) this.loop.start(Math.random() * FIRST_WITHIN);
  }

  /** The last thing, as that of the outbox: handlers may still run until now. */
  async onApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.loop.stop();
    await this.opened.database.close();
  }
}
