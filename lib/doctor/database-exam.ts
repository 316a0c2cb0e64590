import { bucketStates } from '../admin/bucket-table.js';
import { seeRelays } from '../observe/seen-relays.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type {
  BacklogDestination,
  DiagnoseStore,
  Facts,
  GrowthFacts,
  ServerFacts,
} from '../store/diagnose/diagnose-store.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { pause, systemClock, type Clock } from '../time/clock.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';
import type { Interview } from './interview.js';
import type { DoctorSettings } from './options.js';
import type { OutageFacts } from './outage.js';
import { judgePartitions } from './partitions.js';
import { judgeRelays } from './relays.js';
import { judgeClock, judgePlans, judgePooler, judgeReached, judgeRights, judgeServer } from './server.js';
import { judgeSnapshot, judgeTables, judgeUnpurged } from './tables.js';
import { askWakeUp } from './wake-up.js';

interface ExamSources {
  readonly store: OutboxStore;
  readonly questions: DiagnoseStore;
  readonly options: ResolvedOptions;
  readonly settings: DoctorSettings;
  readonly clock: Pick<Clock, 'wall'>;
}

/** Everything that is asked of the database, one question after the other. */
export class DatabaseExam {
  /** Where the backlog goes, by the name of the transport. */
  readonly backlog: (BacklogDestination & { readonly name: string })[] = [];

  constructor(
    readonly interview: Interview,
    readonly sources: ExamSources,
  ) {}

  /** The first question opens the connection, the second one measures. */
  async reaches(): Promise<boolean> {
    const { interview, sources } = this;
    const answer = await interview.answer(() => sources.questions.ask('clock'));
    interview.note([judgeReached(answer)]);
    if ('why' in answer) return false;
    const asked = systemClock.monotonic();
    const database = await this.ask('clock');
    const roundTrip = systemClock.monotonic() - asked;
    const here = sources.clock.wall() - roundTrip / 2;
    if (database !== undefined) interview.note([judgeClock({ here, database, roundTrip })]);
    return true;
  }

  /** @returns what the outage budget is made from */
  async all(): Promise<OutageFacts | undefined> {
    const { interview } = this;
    const { store, options, settings } = this.sources;
    const first = await this.ask('growth');
    const server = await this.judge('server', (facts) => judgeServer(facts, options));
    await this.schema();
    await this.judge('plans', judgePlans);
    const work = options.relay === false ? 'enqueue' : 'relay';
    await this.judge(`${work}Rights`, (rights) => [judgeRights(rights, work)]);
    const tableBytes = await this.tables(server);
    await this.relays();
    await askWakeUp(interview, store, options);
    await this.judge('pooler', (facts) => [judgePooler(facts, typeof options.database.pooler === 'string')]);
    const free = await this.ask('freeBytes');
    const last = await this.later(first);
    if (first === undefined || last === undefined) return undefined;
    return {
      first,
      last,
      tableBytes,
      freeBytes: settings.freeBytes ?? free,
      mostTableBytes: settings.tableBytes,
      maxAge: options.retry.maxAge,
    };
  }

  /** @returns `undefined`: there is no answer, which is noted, or no such thing */
  private ask<Name extends Asked>(name: Name): Promise<Facts[Name] | undefined> {
    const [what, fix] = ASKED[name];
    return this.interview.ask(what, () => this.sources.questions.ask(name), fix);
  }
  private async judge<Name extends Asked>(
    name: Name,
    judged: (fact: Facts[Name]) => readonly Finding[],
  ): Promise<Facts[Name] | undefined> {
    const fact = await this.ask(name);
    if (fact !== undefined) this.interview.note(judged(fact));
    return fact;
  }

  private async schema(): Promise<void> {
    const { interview, sources } = this;
    const problem = await interview.ask('The schema of the tables', () =>
      sources.store.setup.check(sources.options).then(
        () => null,
        (error: unknown) => {
          if (error instanceof OutboxConfigurationError) return error;
          throw error;
        },
      ),
    );
    if (problem !== undefined) interview.note([judgeSchema(problem)]);
  }

  /** @returns bytes of all tables */
  private async tables(server: ServerFacts | undefined): Promise<number | undefined> {
    const { interview, sources } = this;
    const { questions, store, settings } = sources;
    const isVacuumed = server?.settings['autovacuum'] !== 'off';
    const tables = await this.judge('tables', (facts) => judgeTables(facts, isVacuumed));
    const archive = await interview.ask('The partitions of the archive', async () => ({
      layout: await store.partitions?.layout(),
    }));
    if (archive?.layout !== undefined) interview.note(judgePartitions(archive.layout));
    await this.judge('unpurged', (versions) => [judgeUnpurged(versions)]);
    const held = await interview.ask('Old transactions', async () => ({ report: await questions.ask('heldSnapshot') }));
    if (held !== undefined) interview.note([judgeSnapshot(held.report, settings.heldFor, sources.clock.wall())]);
    return tables?.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  private async relays(): Promise<void> {
    const { interview, sources } = this;
    const { store, options } = sources;
    const known = await interview.ask('The transports in the tables', () => store.setup.transports());
    if (known === undefined) return;
    const names = new Map([...known].map(([name, number]) => [number, name]));
    const { inspect } = store;
    const asked =
      inspect &&
      (await interview.ask('The owners of the buckets', async () => {
        const relays = seeRelays(await store.leases.living('gone'), names);
        return { relays, buckets: bucketStates(await inspect.buckets(), names, relays) };
      }));
    const transports = [...options.transports.keys()].filter((name) => known.has(name));
    if (asked !== undefined) interview.note(judgeRelays({ ...asked, transports }, options));
    const destinations = await this.ask('destinations');
    for (const each of destinations ?? [])
      this.backlog.push({ ...each, name: names.get(each.transport) ?? `number ${each.transport}` });
  }

  /** The numbers again, a while after the first time. */
  private async later(first: GrowthFacts | undefined): Promise<GrowthFacts | undefined> {
    const { interview, sources } = this;
    if (first === undefined) return undefined;
    const again = await this.ask('growth');
    if (again === undefined) return undefined;
    const left = sources.settings.measureFor - (again.at - Math.min(first.at, again.earlier?.at ?? Infinity));
    if (left <= 0 || left > interview.left) return again;
    await pause(systemClock, left);
    return this.ask('growth');
  }
}

type Asked = Exclude<keyof Facts, 'heldSnapshot' | 'oldestSnapshot' | 'openTransactions' | 'warnings'>;
/** What "… could not be asked" is said of, and what may help. */
const ASKED: Readonly<Record<Asked, readonly [what: string, fix?: string]>> = {
  clock: ['The clock of the database'],
  growth: ['The numbers of messages'],
  server: ['The settings of the server'],
  plans: [
    'The plans of the statements',
    'Repair the tables first (code schema), or ask again when the server has time.',
  ],
  relayRights: ['The rights of the login'],
  enqueueRights: ['The rights of the login'],
  tables: ['The size of the tables'],
  unpurged: ['The purge backlog of InnoDB', 'grant process on *.* to …;'],
  destinations: ['Where the backlog goes'],
  pooler: ['Whether there is a pooler'],
  freeBytes: ['The room on the disk'],
};

function judgeSchema(problem: OutboxConfigurationError | null): Finding {
  if (problem === null) return isOk('schema', 'Tables, indexes, view and functions are what this version needs.');
  const { message, hint, code } = problem;
  const text = hint === undefined ? message : message.slice(0, -hint.length).trimEnd();
  return found(
    'schema',
    'error',
    { text, evidence: { code } },
    'Enqueues or the relay may fail, get slow, or lose the order. A process with database.setup: "check" does not start.',
    hint ?? 'Run the migrations.',
  );
}
