import { once } from 'node:events';
import { DataSource, type QueryRunner } from 'typeorm';
import { series } from '../support/databases.js';
import { describeOnEach, type DatabaseKind } from '../support/services.js';
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
/** A chunk takes a second, so that whoever kills finds it at work, and is in time before all are through. */
const SLOW = {
  postgres: [
    `create function slow() returns trigger language plpgsql as
      $$ begin perform pg_sleep(0.001); return coalesce(new, old); end $$`,
    'create trigger slow before update or delete on outbox_parked for each row execute function slow()',
  ],
  other: ['update', 'delete'].map(
    (change) => `create trigger slow_${change} before ${change} on outbox_parked for each row do sleep(0.001)`,
  ),
};
const QUICK = {
  postgres: ['drop function slow cascade'],
  other: ['drop trigger slow_update', 'drop trigger slow_delete'],
};

interface Action {
  readonly id: number;
  readonly action: string;
  readonly done: number;
  readonly outcome: string | null;
}

/** A session of the test's own. */
class Beside {
  private constructor(
    readonly source: DataSource,
    readonly kind: DatabaseKind,
    readonly dialect: 'postgres' | 'other',
    readonly looker: QueryRunner,
    readonly own: ReadonlySet<string>,
  ) {}

  static async open(stuck: Stuck, kind: DatabaseKind): Promise<Beside> {
    const source = await new DataSource(stuck.database.options).initialize();
    const dialect = kind === 'postgres' ? 'postgres' : 'other';
    const looker = source.createQueryRunner();
    const sessions = (await looker.query(SESSIONS[dialect])) as { id: unknown }[];
    return new Beside(source, kind, dialect, looker, new Set(sessions.map(({ id }) => String(id))));
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
  /** How changes of rows go from now on. */
  async go(how: typeof SLOW): Promise<void> {
    for (const sql of how[this.dialect]) await this.looker.query(sql);
  }
  /** The server has noticed that the process is gone, and taken back what it had not committed. */
  alone(): Promise<void> {
    const isOwn = ({ id }: { id: unknown }): boolean => this.own.has(String(id));
    return until(async () => (await this.rows<{ id: unknown }>(SESSIONS[this.dialect])).every(isOwn), 60_000);
  }
  async close(): Promise<void> {
    await this.looker.release();
    await this.source.destroy();
  }

  private rows<T>(sql: string): Promise<T[]> {
    return this.looker.query(sql) as Promise<T[]>;
  }
}

describeOnEach([], 'a bulk action whose process is killed', (kind) => {
  /** For the commands that nobody kills. */
  const warm = useWarmCli();
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

  const hasDone = async (count: number, before: number): Promise<boolean> => {
    const action = await beside.action();
    return action !== undefined && action.id > before && action.done >= count;
  };
  /** @returns what the audit says of it */
  const kill = async (command: readonly string[], chunks: number): Promise<number> => {
    const before = (await beside.action())?.id ?? 0;
    const child = cli.begin(command);
    const ended = once(child, 'exit');
    await until(() => hasDone(chunks * CHUNK, before), 60_000, 1);
    child.kill('SIGKILL');
    expect(await ended).toEqual([null, 'SIGKILL']);
    await beside.alone();
    const action = await beside.action();
    expect(action).toMatchObject({ action: command[0], outcome: null });
    return action?.done ?? 0;
  };
  it.each(['requeue', 'cancel'] as const)(
    '%s: the audit has what was done, no chunk is half done, and the same command does the rest once',
    async (name) => {
      const command = [name, '--type', BULK, ...(name === 'cancel' ? ['--yes'] : [])];
      const isDone = async (): Promise<number> => {
        const states = await beside.states();
        return name === 'requeue' ? (states[2] ?? 0) : ALL - (states[2] ?? 0);
      };
      await beside.go(SLOW);
      const first = await kill(command, 2);
      expect(first).toBeGreaterThanOrEqual(2 * CHUNK);
      expect({ rest: first % CHUNK, isDone: await isDone() }).toEqual({ rest: 0, isDone: first });

      const second = await kill(command, 1);
      expect({ rest: second % CHUNK, isDone: await isDone() }).toEqual({ rest: 0, isDone: first + second });
      expect(first + second).toBeLessThan(ALL);

      await beside.go(QUICK);
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
