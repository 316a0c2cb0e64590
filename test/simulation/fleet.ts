import type { DeadLetterEvent } from '../../lib/index.js';
import { OutboxDispatcher } from '../../lib/relay/dispatcher.js';
import { RelayLoops } from '../../lib/relay/relay-loops.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { AskingTransport } from './asking.js';
import { SimulatedTransport, type BrokerState } from './broker.js';
import { listenTo } from './heard.js';
import { NO_EXCUSE, type History } from './history.js';
import { inspect } from './inspect.js';
import type { PlannedFault } from './plan-faults.js';
import { topics } from './plan-missing.js';
import type { Plan } from './plan.js';
import { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import { Said } from './said.js';
import type { MemoryDatabase } from './store/memory-database.js';
import { MemoryStore } from './store/memory-store.js';
import { Wire, type DatabaseState } from './wire.js';
import type { Witness } from './witness.js';
import type { World } from './world.js';

export interface Relay {
  readonly process: SimulatedProcess;
  readonly dispatcher: OutboxDispatcher;
  readonly store: MemoryStore;
  /** By their names. */
  readonly transports: ReadonlyMap<string, SimulatedTransport>;
}

/** The relay processes: started, killed and started again. */
export class Fleet {
  /** Deaths that the hook refused to hear of. @internal */ readonly refusals = new Set<string>();
  readonly relays = new Map<number, Relay>();
  /** Of a slot how many lives it has had. */
  readonly lives = new Map<number, number>();
  /** Faults that wait for their moment. */
  armed: PlannedFault[] = [];
  fire: (fault: PlannedFault) => void = () => undefined;
  /** @internal */ readonly said: Said;
  /** What was stopped in order and is not through with that. */
  readonly leaving = new Set<Relay>();

  constructor(
    readonly world: World,
    readonly plan: Plan,
    readonly history: History,
    readonly witness: Witness,
    readonly database: MemoryDatabase,
    readonly databaseState: DatabaseState,
    /** By the names of the transports. */
    readonly brokers: ReadonlyMap<string, BrokerState>,
    readonly options: ResolvedOptions,
    readonly transportIds: ReadonlyMap<string, number>,
  ) {
    this.said = new Said(world, history, options, plan);
  }

  start(slot: number): void {
    const { world, history, plan, options } = this;
    const life = (this.lives.get(slot) ?? 0) + 1;
    this.lives.set(slot, life);
    const name = `relay ${slot}.${life}`;
    const random = Random.of(plan.seed, name);
    const process = new SimulatedProcess(world, name, random.between(-3_600_000, 3_600_000), random.between(0, 1e6));
    const wire = new Wire(world, plan.seed, history, this.databaseState, process);
    const { call } = wire;
    const watched: typeof call = (operation, effect) => {
      this.sends(slot, operation);
      return call(operation, () => {
        if (operation === 'fetch') inspect(relay, this.database, history, options, plan);
        if (operation === 'acquire') listenTo(relay.dispatcher, this.database);
        if (operation === 'blockingKeys') this.adjust();
        return effect();
      });
    };
    const { floor } = plan;
    // With a held snapshot, what is gone says how far a read with a limit gets.
    const looks = plan.held === undefined ? Random.of(plan.seed, 'looks').pick([16, 64, Infinity]) : Infinity;
    const store = new MemoryStore(this.database, { wire: watched, floor, looks });
    store.heard = (beat) => {
      process.hears(beat.pauses ?? []);
      return beat;
    };
    wire.lost = () => store.reconnect();
    wire.cost = (operation) => this.database.dead?.cost(operation) ?? 0;
    const transports = this.connectTo(process);
    const dispatcher = new OutboxDispatcher({
      options: { ...options, deadLetter: (letter) => this.bury(letter, random) },
      store,
      clock: process,
      random: () => random.next(),
      owner: () => name,
      hooks: { has: () => false, emit: (event, about) => this.said.hear(name, event, about) },
      transportIds: this.transportIds,
      createTransports: async () => transports,
    });
    history.tell(`${name}: starts`);
    const relay: Relay = { process, dispatcher, store, transports };
    this.relays.set(slot, relay);
    for (const transport of transports.values()) {
      transport.sends = (what) => this.sends(slot, what);
      transport.dies = () => (this.alive(slot) === relay ? this.kill(slot, RESTART) : undefined);
    }
    void dispatcher.start();
  }

  /** @internal Before the first answer about blocked keys. */ adjust(): void {
    const { knownKeys: limit, scanEvery: every, held } = this.plan;
    for (const { transportRelay } of this.transportRelays) {
      const { scan } = transportRelay.reader.lateRows;
      if (limit !== undefined) Object.assign(transportRelay.parked.keys, { limit });
      if (every !== undefined) Object.assign(scan, { every });
      // Histories are short: what is far behind the last number in production would never be far here.
      Object.assign(transportRelay.reader.catchUp, {
        near: Random.of(this.plan.seed, 'near').pick([4n, 16n, 65_536n]),
      });
      const first = held?.firstSlice;
      if (first !== undefined && scan.reach.first !== first) Object.assign(scan.reach, { first, width: first });
    }
  }

  /** @internal One line to each broker. */ connectTo(process: SimulatedProcess): Map<string, SimulatedTransport> {
    const { world, plan, history, witness, options } = this;
    const lines = [...this.brokers].map(([name, broker]): [string, SimulatedTransport] => {
      const id = this.transportIds.get(name) as number;
      const longest = 0.55 * options.publishTimeout;
      const { atomicRuns, lethal } = plan;
      const { seed, destinations } = plan;
      const args = [world, seed, history, witness, broker, process, id, atomicRuns, lethal, longest] as const;
      if (destinations === undefined) return [name, new SimulatedTransport(...args)];
      const asking = new AskingTransport(this.said, topics(), ...args);
      if (destinations === 'by key') asking.watch();
      return [name, asking];
    });
    return new Map(lines);
  }

  /** SIGKILL; what is on its way to the database and the broker arrives. */
  kill(slot: number, ms: number): void {
    const relay = this.alive(slot);
    if (relay === undefined) return;
    this.history.fault('kill', relay.process.name, { ms, by: relay.process.name });
    relay.process.dead = true;
    this.world.owe(20, () => relay.store.reconnect()); // the server notices
    this.world.owe(ms, () => this.start(slot));
  }

  /** A graceful stop and a new start, as in a rollout. */
  restart(slot: number, ms: number): void {
    const relay = this.alive(slot);
    if (relay === undefined) return;
    this.history.fault('restart', relay.process.name, NO_EXCUSE);
    this.relays.delete(slot);
    this.leaving.add(relay);
    void relay.dispatcher.stop().then(() => this.leaving.delete(relay));
    this.world.owe(ms, () => this.start(slot));
  }

  /** @internal */ sends(slot: number, what: string): void {
    if (this.armed.length === 0) return;
    const due = this.armed.filter((fault) => fault.slot === slot && fault.when === what);
    this.armed = this.armed.filter((fault) => !due.includes(fault));
    for (const fault of due) this.fire(fault);
  }

  /** To everybody who is connected; the frozen hear of it later. */
  brokerSays(state: 'up' | 'blocked', name = 'default'): void {
    for (const { process, transports } of this.relays.values()) {
      const transport = transports.get(name);
      this.world.in(0, () => transport?.onState?.(state, state === 'blocked' ? 'memory' : undefined), process);
    }
  }

  alive(slot: number): Relay | undefined {
    const relay = this.relays.get(slot);
    return relay === undefined || relay.process.dead ? undefined : relay;
  }

  /** Of all processes, also of those that are stopping. */
  get frozenUntil(): number[] {
    return [...this.relays.values(), ...this.leaving].map(({ process }) => process.frozenUntil);
  }

  /** Relays with leases of those that run. */
  get transportRelays(): { relay: Relay; transportRelay: RelayLoops['relay'] }[] {
    return [...this.relays.values()].flatMap((relay) =>
      relay.process.dead
        ? []
        : relay.dispatcher.relays.flatMap((each) =>
            each instanceof RelayLoops ? [{ relay, transportRelay: each.relay }] : [],
          ),
    );
  }

  /** @internal */ async bury({ message, diedAt }: DeadLetterEvent, random: Random): Promise<void> {
    const fate = this.history.fates.get(message.id);
    this.history.tell(`the hook hears of ${fate?.name}`);
    if (fate?.deaths === 0) this.history.violated(16, `the hook was called for ${fate.name}, which did not die`);
    // Once at most: each further try is half a lease away, and then the end would not come in time.
    if (random.chance(0.1) && !this.refusals.has(message.id)) {
      this.refusals.add(message.id);
      throw new Error('the hook refuses');
    }
    fate?.heard.add(diedAt.getTime());
  }
}

/** Milliseconds after which a process that died of a message is started again. */
const RESTART = 500;
