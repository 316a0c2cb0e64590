import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { healthy, type BrokerState } from './broker.js';
import { Faults } from './faults.js';
import { Fleet } from './fleet.js';
import { History, type Fate } from './history.js';
import { judge, prompt } from './judge.js';
import { Operator } from './operator.js';
import { NO_RATES } from './plan-faults.js';
import { topicOf } from './plan-missing.js';
import { SECOND } from './plan-variants.js';
import type { Plan } from './plan.js';
import { EPOCH } from './process.js';
import { through } from './through.js';
import { MemoryDatabase } from './store/memory-database.js';
import { MemoryStore } from './store/memory-store.js';
import type { DatabaseState } from './wire.js';
import { Watchdog } from './watchdog.js';
import { Witness } from './witness.js';
import { Workload } from './workload.js';
import { World } from './world.js';

export interface Outcome {
  readonly plan: Plan;
  readonly violations: readonly string[];
  readonly committed: number;
  readonly duplicates: number;
  /** What became of each message. */
  readonly fates: readonly Fate[];
  /** Failures that were written down as a message's own. */
  readonly charged: number;
  readonly steps: number;
  readonly faults: ReadonlyMap<string, number>;
  /** Faults of single statements and publishes, by name. */
  readonly drawn: readonly string[];
  readonly trace: readonly string[];
  /** Milliseconds from the last disturbance until everything was through. */
  readonly settledAfter: number;
}

/** Leases that run out until a message that kills its process is dead: three suspect it, three kill it, some may come in between. */
const CRASH_LOOP = 10;
/** Milliseconds: the longest delay of a loop after an error, of the settler, and what the rest needs. */
const OTHER_DELAYS = 8_000;
/** From one look at everything to the next. */
const FULL_SCAN = 45_000;
/** From one sweep of all above the lower mark to the next, at most. */
const DEEP_SWEEP = 30_000;

/**
 * Plays one plan: relays, writers, operators and faults in virtual time, on a store in memory. The invariants of
 * docs/design.md, and where each is asserted:
 *
 *   1, 3, 7, 12, 13, 16   judge.ts, at the end, from what the broker saw and what the tables hold
 *   2, 4, 5, 9, 10, 11    witness.ts, when a publish starts
 *   6, 13, 14, 18         witness.ts, when a write takes effect
 *   8, 17                 inspect.ts, whenever a relay reads; said.ts, when it says that positions were wrong and no number went back
 *   15                    through.ts, from the last fault on; judge.ts, for those whom no fault touches: with a second
 *                         transport, its messages while the first one's broker is away
 *   20                    watchdog.ts, from beginning to end
 *   21                    said.ts, with each event; asking.ts, some time after a start
 *
 * What the statements themselves decide is the store's in memory, and not seen here: all of 7 and of 18, and of 11 for whom an
 * operator comes too late; the relay's part of it is that it publishes nothing which it does not hold. The store contract has
 * these (`lib/testing/store-contract/ready.ts`, `-leases.ts`, `-cancel.ts`, `-operators.ts`, and side by side `-races.ts`). Nor is
 * of 14 what a client library makes of a broker's answer: `test/integration/kafka/faults.spec.ts` and
 * `test/integration/rabbitmq/faults.contract.ts`. Of 17 it counts rows, blocked keys, checkpoints, the bytes of each
 * batch, and, where all payloads have one size, those of all that was read: where they differ, `Room` goes by their mean, and
 * its bound is one of rows below 64 KiB. What a process holds of payloads above that is `test/processes/large-payloads.spec.ts`.
 * Of 6 it is not seen whether a row that was read again under the present lease is written for what happened under the last one,
 * unless the broker refused it there: `test/unit/relay/transport-relay.spec.ts`.
 */
export async function play(plan: Plan, traced = false): Promise<Outcome> {
  const scenario = new Scenario(plan, traced);
  return scenario.play();
}

class Scenario {
  readonly world = new World();
  readonly history: History;
  readonly database: MemoryDatabase;
  readonly options: ResolvedOptions;
  readonly databaseState: DatabaseState;
  /** By the names of their transports. */
  readonly brokers: ReadonlyMap<string, BrokerState>;
  fleet: Fleet | undefined;
  faults: Faults | undefined;

  constructor(
    readonly plan: Plan,
    traced: boolean,
  ) {
    const { rates } = plan;
    this.history = new History(() => this.world.now, traced, plan.only);
    const hasSecond = [...plan.writers, ...plan.faults].some(({ transport }) => transport === SECOND);
    const names = hasSecond ? ['default', SECOND] : ['default'];
    this.brokers = new Map(names.map((name) => [name, { ...healthy(rates), changes: new Map(), onBack: [] }]));
    const transports = Object.fromEntries(names.map((name) => [name, { useFactory: never }]));
    this.options = resolveOptions({ transports, ...plan.options });
    const holdsLocks = this.options.coordination === 'rowLock';
    this.databaseState = { downUntil: 0, failovers: 0, failing: new Map(), rates, holdsLocks };
    this.database = new MemoryDatabase({
      now: () => EPOCH + this.world.now,
      settings: this.options,
      isLarge: ({ seq }) => Number(seq) % 8 === 0,
    });
    this.database.stride = BigInt(plan.held?.each ?? 1);
  }

  async play(): Promise<Outcome> {
    const { world, history, options, plan, database } = this;
    const store = new MemoryStore(database, { floor: plan.floor });
    await store.create(options);
    const ids = await store.transports([...options.transports.keys()], options.defaultTransport);
    const witness = new Witness(history, database, options);
    const fleet = (this.fleet = new Fleet(
      world,
      plan,
      history,
      witness,
      database,
      this.databaseState,
      this.brokers,
      options,
      ids,
    ));
    for (const { slot, at } of plan.relays) world.owe(at, () => fleet.start(slot));
    const { ordering, buckets } = options;
    const topic = plan.destinations ? topicOf : undefined;
    const workload = new Workload(world, history, database, store, ordering, buckets, ids, plan.bytes, topic);
    workload.begin(plan.writers);
    new Operator(world, history, store).begin(plan.acts);
    const faults = (this.faults = new Faults(world, plan, history, database, this.databaseState, this.brokers, fleet));
    faults.begin();
    new Watchdog(world, history, database, options, fleet).begin();
    await world.run(plan.turmoil);
    const disturbedUntil = this.calm();
    await world.run(Infinity, () => workload.over);
    const quietFrom = Math.max(world.now, disturbedUntil);
    const crashes = plan.lethal === null ? 0 : CRASH_LOOP * (options.lease + 2 * options.pollInterval + 3_000);
    const late = (): string[] => through(history, database, options, fleet);
    // What is through stays as it is, once nothing is on its way that came from somewhere else.
    const isQuiet = (): boolean => world.now >= world.owedUntil && late().length === 0;
    await world.run(quietFrom, isQuiet);
    const delays = Math.max(history.longestProbe, this.longestWait());
    const scan = database.caughtUp ? FULL_SCAN : 0;
    // What lies below the upper mark is swept for rarely, after sweeps that walked over many dead rows.
    const sweep = plan.held !== undefined && plan.floor === 'probe' ? DEEP_SWEEP : 0;
    const rest = delays + OTHER_DELAYS + crashes + scan + sweep;
    const limit = quietFrom + options.lease + 2 * options.pollInterval + rest;
    await world.run(limit, () => late().length === 0);
    const settledAfter = Math.max(0, world.now - quietFrom);
    const left = late().join(', ');
    if (left !== '') history.violated(15, `after ${settledAfter.toFixed(0)} ms without a fault: ${left}`);
    judge(history, database, options);
    prompt(history, plan, options);
    for (const { process } of [...fleet.relays.values(), ...fleet.leaving]) process.dead = true;
    const fates = [...history.fates.values()];
    return {
      plan,
      violations: history.violations,
      committed: fates.filter(({ writer }) => writer.state === 'committed').length,
      duplicates: fates.reduce((sum, { taken }) => sum + Math.max(0, taken.length - 1), 0),
      fates,
      charged: witness.charged,
      steps: world.happened,
      faults: history.faults,
      drawn: history.drawn,
      trace: history.trace,
      settledAfter,
    };
  }

  /** No more faults. @returns when the last of them is over @internal */
  calm(): number {
    const { world, fleet, faults, databaseState, brokers, history, plan } = this;
    databaseState.rates = NO_RATES;
    databaseState.downUntil = 0;
    databaseState.failing.clear();
    faults?.calm();
    for (const [name, broker] of brokers) {
      Object.assign(broker, healthy(NO_RATES));
      fleet?.brokerSays('up', name);
    }
    history.tell('calm');
    const delays = plan.writers.flatMap(({ transactions }) => transactions).flatMap(({ messages }) => messages);
    const due = Math.max(0, ...delays.map(({ delay }) => delay ?? 0));
    const frozen = fleet?.frozenUntil ?? [];
    world.owedUntil = Math.max(world.owedUntil, ...frozen);
    const effects = history.seen.map(({ until }) => until);
    return Math.max(world.now + due, ...frozen, ...effects);
  }

  /** Of those that failed, and were put off for their destination: up to a minute. @internal */
  longestWait(): number {
    const waiting = [...this.database.parked.values()].filter(({ state }) => state === 'waiting');
    return Math.min(60_000, Math.max(0, ...waiting.map(({ dueAt }) => (dueAt ?? 0) - this.database.now())));
  }
}

const never = (): never => {
  throw new Error('The simulation makes its own.');
};
