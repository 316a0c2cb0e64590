import { OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import type { DatabaseKind } from '../../support/services.js';
import { Applications, build, MoodyTransport, quiet, typeOrm, until } from '../../nest/support/app.js';

/** An application that stood still: its relay is gone, and its messages are where a relay left them. */
export class Stuck {
  private readonly applications = new Applications();

  private constructor(readonly database: TestDatabase) {}

  static async create(kind: DatabaseKind): Promise<Stuck> {
    return new Stuck(await createTestDatabase(kind));
  }

  get env(): Record<string, string> {
    return { OUTBOX_DATABASE_URL: urlOf(this.database) };
  }

  /** Runs with a relay that publishes nothing, until `done`, and closes. */
  async during<T>(
    work: (outbox: OutboxService, transport: MoodyTransport) => Promise<T>,
    options: Partial<OutboxOptions> = {},
  ): Promise<T> {
    const transport = new MoodyTransport();
    const app = await this.applications.start(
      build([
        typeOrm(this.database),
        OutboxModule.forRoot(quiet({ transports: { default: transport }, retry: { maxAttempts: 1 }, ...options })),
      ]),
    );
    try {
      return await work(app.get(OutboxService), transport);
    } finally {
      await this.applications.close();
    }
  }

  /** So many dead messages, without a key or of this one. @returns their ids */
  dead(count: number, message: Partial<Message> = {}): Promise<string[]> {
    return this.during(async (outbox) => {
      const before = (await outbox.stats()).total.dead;
      const all = Array.from({ length: count }, () => ({ ...MESSAGE, ...message }));
      const ids = await outbox.enqueueOutsideTransaction(all, {});
      await until(async () => (await outbox.stats()).total.dead === before + count, 120_000);
      return ids;
    });
  }

  /** In a process that only enqueues. */
  enqueue(message: Partial<Message> = {}): Promise<string> {
    return this.during((outbox) => outbox.enqueueOutsideTransaction({ ...MESSAGE, ...message }, {}), { relay: false });
  }

  async total(): Promise<Record<string, number>> {
    return this.during(async (outbox) => ({ ...(await outbox.stats()).total }), { relay: false });
  }

  async remove(): Promise<void> {
    await this.applications.close();
    await this.database.drop();
  }
}

export interface Message {
  readonly type: string;
  readonly topic: string;
  readonly key: string | null;
  readonly payload: object;
  readonly headers: Record<string, string>;
  readonly options?: Readonly<Record<string, string | number>>;
}
const MESSAGE: Message = { type: 'order.placed', topic: 'orders', key: null, payload: { total: 1 }, headers: {} };

/** The scheme says which driver of TypeORM. */
function urlOf({ kind, url }: TestDatabase): string {
  return kind === 'mariadb' ? url.replace(/^mysql:/, 'mariadb:') : url;
}
