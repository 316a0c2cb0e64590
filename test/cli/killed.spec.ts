import { once } from 'node:events';
import { DataSource, type QueryRunner } from 'typeorm';
import { series } from '../support/databases.js';
import { DATABASES, describeWith, type DatabaseKind } from '../support/services.js';
import { until } from '../support/until.js';
import { Cli } from './support/cli.js';
import { Stuck } from './support/stuck.js';
import { useWarmCli } from './support/warm-cli.js';

jest.setTimeout(600_000);

const BULK = 'order.bulk';
const ALL = 20_000;
const CHUNK = 1_000;

const SESSIONS = {
  postgres: 'select pid as id from pg_stat_activity where datname = current_database()',
  other: 'select id from information_schema.processlist where db = database()',
};
const IS_WAITING = {
  postgres: 'select 1 from pg_stat_activity where datname = current_database() and wait_event_type = $$Lock$$',
  other: `select 1 from information_schema.innodb_trx join information_schema.processlist on id = trx_mysql_thread_id
    where db = database() and trx_state = 'LOCK WAIT'`,
};

interface Action {
  readonly id: number;
  readonly action: string;
  readonly done: number;
  readonly outcome: string | null;
}

/** Two sessions of the test's own: one locks, and one looks. */
class Beside {
  private constructor(
    readonly source: DataSource,
    readonly kind: DatabaseKind,
    readonly dialect: 'postgres' | 'other',
    readonly locker: QueryRunner,
    readonly looker: QueryRunner,
    readonly own: ReadonlySet<string>,
  ) {}

  static async open(stuck: Stuck, kind: DatabaseKind): Promise<Beside> {
    const source = await new DataSource(stuck.database.options).initialize();
    const dialect = kind === 'postgres' ? 'postgres' : 'other';
    const [locker, looker] = [source.createQueryRunner(), source.createQueryRunner()];
    await locker.query('select 1');
    const sessions = (await looker.query(SESSIONS[dialect])) as { id: unknown }[];
    return new Beside(source, kind, dialect, locker, looker, new Set(sessions.map(({ id }) => String(id))));
  }

  /** As a relay left the one that there is, in all buckets: so many would take a relay long. */
  async copyDead(count: number): Promise<void> {
    const same = 'topic, type, headers, payload, state, attempts, attempted_at, last_error, died_at, announced';
    const [own, values] = this.dialect === 'postgres' ? [', id, bucket', ', gen_random_uuid(), n % 32'] : ['', ''];
    const numbers = `(select seq as n from ${series(this.kind, count)}) as numbers`;
    await this.rows(
      `insert into outbox_parked (${same}, seq${own}) select ${same}, seq + n${values} from outbox_parked, ${numbers}`,
    );
  }
  /** The last action of the audit, as its row says it. */
  async action(): Promise<Action | undefined> {
    const [row] = await this.rows<Record<keyof Action, unknown>>(
      'select audit_id as id, action, done, outcome from outbox_audit order by audit_id desc limit 1',
    );
    return row && ({ ...row, id: Number(row.id), done: Number(row.done) } as Action);
  }
  /** State → rows: 2 waits for a retry, 4 is dead. */
  async states(): Promise<Record<string, number>> {
    const sql = `select state, count(*) as n from outbox_parked where type = '${BULK}' group by state`;
    return Object.fromEntries(
      (await this.rows<{ state: number; n: unknown }>(sql)).map(({ state, n }) => [state, Number(n)]),
    );
  }
  /** An action that comes to this row waits there: it cannot be through before somebody looks. */
  async lockRow(place: 'first' | 'last', after = 0): Promise<void> {
    const order = `parked_id ${place === 'first' ? 'asc' : 'desc'}`;
    await this.locker.query('begin');
    await this.locker.query(`select 1 from outbox_parked order by ${order} limit 1 offset ${after} for update`);
  }
  async unlock(): Promise<void> {
    await this.locker.query('rollback');
  }
  someoneWaits(): Promise<void> {
    return until(async () => (await this.rows(IS_WAITING[this.dialect])).length > 0, 60_000);
  }
  /** The server has noticed that the process is gone, and taken back what it had not committed. */
  alone(): Promise<void> {
    const isOwn = ({ id }: { id: unknown }): boolean => this.own.has(String(id));
    return until(async () => (await this.rows<{ id: unknown }>(SESSIONS[this.dialect])).every(isOwn), 60_000);
  }
  async close(): Promise<void> {
    await this.locker.release();
    await this.looker.release();
    await this.source.destroy();
  }

  private rows<T>(sql: string): Promise<T[]> {
    return this.looker.query(sql) as Promise<T[]>;
  }
}

describeWith(DATABASES, 'a bulk action whose process is killed', () => {
  /** For the commands that nobody kills. */
  const warm = useWarmCli();
  describe.each(DATABASES)('on %s', (kind) => {
    let stuck: Stuck;
    let cli: Cli;
    let beside: Beside;
    beforeAll(async () => {
      stuck = await Stuck.create(kind);
      cli = await Cli.create(stuck.env, warm);
      await stuck.dead(1, { type: BULK });
      beside = await Beside.open(stuck, kind);
      await beside.copyDead(ALL - 1);
      expect(await beside.states()).toEqual({ 4: ALL });
    });
    afterAll(async () => {
      await beside?.close();
      await cli?.remove();
      await stuck?.remove();
    });

    /** @returns what the audit says of it */
    const kill = async (command: readonly string[], when: (before: number) => Promise<void>): Promise<number> => {
      const before = (await beside.action())?.id ?? 0;
      const child = cli.begin(command);
      const ended = once(child, 'exit');
      await when(before);
      child.kill('SIGKILL');
      expect(await ended).toEqual([null, 'SIGKILL']);
      await beside.unlock();
      await beside.alone();
      const action = await beside.action();
      expect(action).toMatchObject({ action: command[0], outcome: null });
      return action?.done ?? 0;
    };
    const hasDoneAChunk = async (before: number): Promise<void> => {
      const isSo = async (): Promise<boolean> => {
        const action = await beside.action();
        return action !== undefined && action.id > before && action.done >= CHUNK;
      };
      await until(isSo, 60_000, 1);
    };

    it.each(['requeue', 'cancel'] as const)(
      '%s: the audit has what was done, no chunk is half done, and the same command does the rest once',
      async (name) => {
        const command = [name, '--type', BULK, ...(name === 'cancel' ? ['--yes'] : [])];
        const isDone = async (): Promise<number> => {
          const states = await beside.states();
          return name === 'requeue' ? (states[2] ?? 0) : ALL - (states[2] ?? 0);
        };
        // What is requeued is taken in its order, and what is cancelled from its end.
        const [start, end] = name === 'requeue' ? (['first', 'last'] as const) : (['last', 'first'] as const);
        await beside.lockRow(start, 2.5 * CHUNK);
        const first = await kill(command, () => beside.someoneWaits()); // in the middle of a chunk
        expect(first).toBe(2 * CHUNK);
        expect({ rest: first % CHUNK, isDone: await isDone() }).toEqual({ rest: 0, isDone: first });

        await beside.lockRow(end);
        const second = await kill(command, hasDoneAChunk); // wherever it is just then, but not through
        expect({ rest: second % CHUNK, isDone: await isDone() }).toEqual({ rest: 0, isDone: first + second });
        expect(first + second).toBeLessThan(ALL);

        const { code, lines } = await cli.json(command);
        const rest = ALL - first - second;
        expect({ code, lines }).toMatchObject({ code: 0, lines: [{ action: name, done: rest }] });
        expect(await beside.action()).toMatchObject({ action: name, done: rest, outcome: 'done' });
        expect(await beside.states()).toEqual(name === 'requeue' ? { 2: ALL } : {});
        const { lines: audit } = await cli.json(['audit', '--limit', '3']);
        expect(audit.map(({ done, outcome }) => [done, outcome])).toEqual([
          [rest, 'done'],
          [second, 'running'],
          [first, 'running'],
        ]);
      },
    );
  });
});
