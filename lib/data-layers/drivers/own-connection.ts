import { OutboxError } from '../../outbox.errors.js';
import type { SqlConnection, SqlExecutor, SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { systemClock } from '../../time/clock.js';

/** A session of ours, whose client tells of its end. */
export interface Opened {
  readonly client: { on(event: string, listener: (...args: never[]) => void): unknown };
}

/**
 * One connection that reopens itself. Work queues in the order of the calls: a driver wants one statement at a time, and nobody sees
 * anything of a transaction that another caller has open on it.
 */
export abstract class OwnConnection<O extends Opened> implements SqlConnection {
  generation = 0;
  /** What `opening` resolved to, as long as it is that. */
  protected opened: O | undefined;
  private opening: Promise<O> | undefined;
  private tail: Promise<unknown> = Promise.resolve();
  private wasOpen = false;
  private isOnce = false;
  /** Of the session that was opened last; aborted with it. */
  protected session = new AbortController();
  private readonly idle: IdleClose;

  /** @param closeIdleAfter milliseconds after which it is closed when nobody asks anything */
  constructor(
    private readonly checkOut: () => Promise<O>,
    closeIdleAfter?: number,
  ) {
    this.idle = new IdleClose(closeIdleAfter, () => this.leave());
  }

  abstract run(sql: Sql): Promise<SqlResult>;
  abstract transaction<T>(work: (tx: SqlExecutor, ended: AbortSignal) => Promise<T>): Promise<T>;
  /** Ends a session, at once: a statement that is sent after the one in flight failed must be refused. Never rejects. */
  protected abstract end(opened: O): Promise<void>;

  /** Works in one session, and in none in its place: what it had locked is lost with it. */
  async alone<T>(work: (session: this) => Promise<T>): Promise<T> {
    this.isOnce = true;
    return work(this).finally(() => this.close());
  }

  close(): Promise<void> {
    this.idle.cancel();
    return this.drop();
  }

  async drop(): Promise<void> {
    const { opening } = this;
    const opened = this.forget();
    if (opened !== undefined) await this.end(opened);
    await opening?.catch(() => undefined); // one that is still being opened is ended when it is there
  }

  /** Nothing is asked of it. */
  protected leave(): void {
    void this.drop();
  }

  /** The next work opens another session. @returns the one that is open now */
  protected forget(): O | undefined {
    const { opened } = this;
    this.opening = this.opened = undefined;
    this.session.abort();
    return opened;
  }

  protected enqueue<T>(work: (opened: O) => Promise<T>): Promise<T> {
    const result = this.tail.then(async () => work(await this.connect()));
    this.tail = result.catch(() => undefined);
    return this.idle.during(result);
  }

  private connect(): Promise<O> {
    if (this.opening !== undefined) return this.opening;
    if (this.isOnce && this.wasOpen)
      throw new OutboxError('STORE_UNAVAILABLE', 'The session that had the lock is over.');
    const opening: Promise<O> = this.checkOut().then(
      async (opened) => {
        if (this.opening !== opening) {
          await this.end(opened); // dropped meanwhile: a statement on it would never be answered
          throw lost();
        }
        if (this.wasOpen) this.generation++;
        this.wasOpen = true;
        this.opened = opened;
        this.session = new AbortController();
        const ended = (): void => void (this.opening === opening && this.drop());
        opened.client.on('error', ended);
        opened.client.on('end', ended);
        return opened;
      },
      (error: unknown) => {
        if (this.opening === opening) this.opening = undefined;
        throw error;
      },
    );
    this.opening = opening;
    return opening;
  }
}

/** Closes a connection that nobody has asked anything for a while; the next question opens another. */
export class IdleClose {
  /** Questions that are not answered yet. */
  private pending = 0;
  cancel: () => void = () => undefined;

  /** @param after milliseconds; `undefined`: never */
  constructor(
    readonly after: number | undefined,
    readonly close: () => void,
  ) {}

  async during<T>(work: Promise<T>): Promise<T> {
    this.pending += 1;
    this.cancel();
    try {
      return await work;
    } finally {
      this.pending -= 1;
      if (this.pending === 0 && this.after !== undefined) this.cancel = systemClock.after(this.after, this.close);
    }
  }
}

export const lost = (): Error =>
  Object.assign(new Error('The connection to the database was lost.'), { code: 'PROTOCOL_CONNECTION_LOST' });
