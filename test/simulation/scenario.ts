import { OutboxDispatcher } from '../../lib/dispatch/dispatcher.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { resolveOptions } from '../../lib/resolve-options.js';
import { SimulatedTransport, type BrokerFaults } from './broker.js';
import { History, type Fate } from './history.js';
import { judge, type Verdict } from './judge.js';
import { Operator } from './operator.js';
import { EPOCH, SimulatedProcess } from './process.js';
import { MemoryDatabase } from './store/memory-database.js';
import { MemoryStore } from './store/memory-store.js';
import { Wire, type WireFaults } from './wire.js';
import { Random, World } from './world.js';
import { Workload } from './workload.js';

/** Milliseconds of load and faults, and how long after it everything must be through. */
const TURMOIL = 20_000;
const CALM_AFTER = 240_000;

export interface Outcome extends Verdict {
  readonly seed: number;
  readonly steps: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly trace: readonly string[];
}

interface Relay {
  readonly process: SimulatedProcess;
  readonly dispatcher: OutboxDispatcher;
}

/** One history: some relays, writers and faults, all out of one seed. */
export class Scenario {
  readonly random: Random;
  readonly world = new World();
  readonly history: History;
  readonly database: MemoryDatabase;
  readonly options: ResolvedOptions;
  readonly wireFaults: WireFaults;
  readonly brokerFaults: BrokerFaults;
  readonly relays = new Map<number, Relay>();
  readonly atomicRuns: boolean;
  started = 0;
  transportIds: ReadonlyMap<string, number> = new Map();

  constructor(
    readonly seed: number,
    traced = false,
  ) {
    const random = (this.random = new Random(seed));
    this.history = new History(() => this.world.now, traced);
    const harsh = random.chance(0.8); // the others show what happens without a fault
    const share = (most: number): number => (harsh && random.chance(0.5) ? random.between(0, most) : 0);
    this.wireFaults = {
      downUntil: 0,
      lostRequests: share(0.03),
      lostReplies: share(0.03),
      lateRequests: share(0.01),
      slow: random.chance(0.5) ? 0.05 : 0,
    };
    this.atomicRuns = random.chance(0.4);
    this.brokerFaults = { downUntil: 0, breaks: share(0.1), hangs: share(0.02) };
    this.options = resolveOptions({
      transports: { default: new SimulatedTransport(this.world, random, this.history, this.brokerFaults, NOBODY) },
      buckets: random.pick([1, 2, 4]),
      pollInterval: random.pick([50, 200, 1_000]),
      lease: '12s',
      publishTimeout: '2s',
      batchSize: random.pick([2, 10, 100]),
      batchesInFlight: random.pick([1, 2, 4]),
      onPublished: random.pick(['delete', 'archive']),
      onDead: random.pick(['block', 'skip']),
      ordering: random.pick(['key', 'key', 'key', 'key', 'global', 'none']),
      coordination: random.chance(0.15) ? 'leader' : 'buckets',
      retry: { initial: 20, max: 500, maxAttempts: 3 },
    });
    this.database = new MemoryDatabase({ now: () => EPOCH + this.world.now, settings: this.options });
  }

  async play(): Promise<Outcome> {
    const { random, world, history, options } = this;
    const setup = new MemoryStore(this.database);
    await setup.create(options);
    this.transportIds = await setup.registerTransports([...options.transports.keys()], options.defaultTransport);
    const relays = random.whole(1, 3);
    for (let slot = 0; slot < relays; slot += 1) world.in(random.between(0, 3_000), () => this.start(slot));
    const workload = new Workload(
      world,
      random,
      history,
      this.database,
      setup,
      options.ordering === 'global' ? 1 : options.buckets,
    );
    workload.begin(TURMOIL);
    const operator = new Operator(world, random, history, setup, 5);
    if (random.chance(0.4)) void operator.work(TURMOIL);
    if (random.chance(0.8)) this.planFaults(relays);
    await world.run(TURMOIL);
    this.calm(relays);
    await world.run(TURMOIL + CALM_AFTER, () => workload.over && this.through());
    this.bury();
    const verdict = judge(history, {
      maxAttempts: 3,
      onDead: options.retry.onDead,
      gateOf: this.gateOf,
      touched: operator.touched,
    });
    for (const { process } of this.relays.values()) process.dead = true;
    return { ...verdict, seed: this.seed, steps: world.happened, faults: history.faults, trace: history.trace };
  }

  /** @internal */ start(slot: number): void {
    const { world, random, history, options } = this;
    const name = `relay ${slot}.${(this.started += 1)}`;
    const process = new SimulatedProcess(world, name, random.between(-3_600_000, 3_600_000), random.between(0, 1e6));
    const wire = new Wire(world, random, history, this.wireFaults, process);
    const store = new MemoryStore(this.database, { wire: wire.call });
    wire.lost = () => store.reconnect();
    const transport = new SimulatedTransport(world, random, history, this.brokerFaults, process, this.atomicRuns);
    const dispatcher = new OutboxDispatcher({
      options,
      store,
      clock: process,
      random: () => random.next(),
      owner: () => name,
      hooks: {
        has: () => false,
        emit: (event, about) => {
          history.tell(`${name}: ${event} ${JSON.stringify(about, skipErrors)}`);
        },
      },
      transportIds: this.transportIds,
      createTransports: async () => new Map([['default', transport]]),
    });
    history.tell(`${name}: starts`);
    this.relays.set(slot, { process, dispatcher });
    void dispatcher.start();
  }

  /** @internal */ planFaults(relays: number): void {
    const { random, world } = this;
    const faults = [
      () => this.kill(random.whole(0, relays - 1)),
      () => this.kill(random.whole(0, relays - 1)),
      () => this.freeze(random.whole(0, relays - 1)),
      () => this.freeze(random.whole(0, relays - 1)),
      () => this.restart(random.whole(0, relays - 1)),
      () => this.outage(this.wireFaults, 'the database is away', random.between(100, 15_000)),
      () => this.outage(this.brokerFaults, 'the broker is away', random.between(100, 15_000)),
    ];
    for (let n = random.whole(0, 5); n > 0; n -= 1) world.in(random.between(0, TURMOIL), random.pick(faults));
  }

  /** @internal SIGKILL; what is on its way to the database and the broker arrives. */
  kill(slot: number): void {
    const relay = this.relays.get(slot);
    if (relay === undefined || relay.process.dead) return;
    this.history.fault('kill', relay.process.name);
    relay.process.dead = true;
    this.world.in(this.random.between(10, 10_000), () => this.start(slot));
  }

  /** @internal SIGSTOP, and SIGCONT later, often after its leases. */
  freeze(slot: number): void {
    const relay = this.relays.get(slot);
    if (relay === undefined || relay.process.dead) return;
    this.history.fault('freeze', relay.process.name);
    relay.process.frozenUntil = this.world.now + this.random.between(50, 25_000);
  }

  /** @internal A graceful stop and a new start, as in a rollout. */
  restart(slot: number): void {
    const relay = this.relays.get(slot);
    if (relay === undefined || relay.process.dead) return;
    this.history.fault('restart', relay.process.name);
    this.relays.delete(slot);
    void relay.dispatcher.stop();
    this.world.in(this.random.between(0, 2_000), () => this.start(slot));
  }

  /** @internal */ outage(faults: { downUntil: number }, kind: string, ms: number): void {
    this.history.fault(kind, `${ms.toFixed(0)} ms`);
    faults.downUntil = Math.max(faults.downUntil, this.world.now + ms);
  }

  /** @internal No more faults; at least one relay is there, or will be. */
  calm(relays: number): void {
    Object.assign(this.wireFaults, { downUntil: 0, lostRequests: 0, lostReplies: 0, lateRequests: 0, slow: 0 });
    Object.assign(this.brokerFaults, { downUntil: 0, breaks: 0, hangs: 0 });
    this.history.tell('calm');
    for (let slot = 0; slot < relays; slot += 1) {
      if (!this.relays.has(slot)) this.world.in(0, () => this.relays.has(slot) || this.start(slot));
    }
  }

  /** @internal Nothing is left but what is dead, or held behind it. */
  through(): boolean {
    this.bury();
    for (const fate of this.history.fates.values()) {
      if (fate.committed !== undefined && fate.taken.length === 0 && !fate.dead && !fate.removed && !this.held(fate))
        return false;
    }
    return true;
  }

  /** @internal What the table says; the event of a death is lost with the answer to the statement that wrote it. */
  bury(): void {
    for (const { id, state } of this.database.parked.values()) {
      const fate = this.history.fates.get(id);
      if (fate !== undefined) fate.dead = state === 'dead';
    }
  }

  /** @internal */ readonly gateOf = ({ key }: Fate): string | null =>
    ({ global: '', key, none: null })[this.options.ordering];

  /** @internal Behind a dead one. */
  held(fate: Fate): boolean {
    const gate = this.gateOf(fate);
    if (gate === null || this.options.retry.onDead !== 'block') return false;
    for (const other of this.history.fates.values()) if (other.dead && this.gateOf(other) === gate) return true;
    return false;
  }
}

const NOBODY = new SimulatedProcess(new World(), 'nobody', 0, 0);
const skipErrors = (name: string, value: unknown): unknown =>
  value instanceof Error ? value.message : name === 'runId' ? undefined : value;
