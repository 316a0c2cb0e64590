import { OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import type { DatabaseKind } from '../../support/services.js';
import { Cli } from './cli.js';
import { useWarmCli } from './warm-cli.js';
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

/**
 * One for the tests of a `describe`, and the command line on its database. Both are filled by a hook.
 * @param warm whether one process runs the commands: not where a test ends one, or types into its terminal
 */
export function useStuck(kind: DatabaseKind, warm = true): { readonly stuck: Stuck; readonly cli: Cli } {
  const [stuck, cli] = [Object.create(Stuck.prototype) as Stuck, Object.create(Cli.prototype) as Cli];
  const process = warm ? useWarmCli() : undefined;
  beforeAll(async () => {
    Object.assign(stuck, await Stuck.create(kind));
    Object.assign(cli, await Cli.create(stuck.env, process));
  });
  afterAll(async () => {
    if (cli.folder !== undefined) await cli.remove();
    if (stuck.database !== undefined) await stuck.remove();
  });
  return { stuck, cli };
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
