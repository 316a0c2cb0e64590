import type { Pause } from '../../lib/store/pauses/pause-store.js';
import type { BrokerState } from './broker.js';
import { forgetLost } from './forget-lost.js';
import type { Fleet } from './fleet.js';
import { NO_EXCUSE, type Fate, type History } from './history.js';
import type { BrokerFault, DatabaseFault, PlannedFault } from './plan-faults.js';
import type { Plan } from './plan.js';
import { replica } from './store/memory-backup.js';
import type { MemoryDatabase } from './store/memory-database.js';
import { DeadRows } from './store/memory-dead.js';
import { LATE, MATTERS, PATIENCE, type DatabaseState } from './wire.js';
import type { World } from './world.js';

/** By which the database's clock was ahead. */
const DAY = 86_400_000;

/** What a plan's faults do, each at its moment; none once it is calm. */
export class Faults {
  /** @internal */ isCalm = false;
  /** The last snapshot that somebody holds is held until then. @internal */ heldUntil = 0;

  constructor(
    readonly world: World,
    readonly plan: Plan,
    readonly history: History,
    readonly database: MemoryDatabase,
    readonly databaseState: DatabaseState,
    /** By the names of their transports. */
    readonly brokers: ReadonlyMap<string, BrokerState>,
    readonly fleet: Fleet,
  ) {}

  /** Each at its time, or with the first of what it waits for. */
  begin(): void {
    const { fleet, world } = this;
    for (const fault of this.plan.faults) {
      world.in(fault.at, () => (fault.when === undefined ? this.happen(fault) : fleet.armed.push(fault)));
    }
    fleet.fire = (fault) => world.in(fault.after, () => this.happen(fault));
  }

  /** Who sleeps and whose clock is set back meanwhile cannot know how late it is. @internal */
  get sleeps(): boolean {
    return this.plan.faults.some(({ kind }) => kind === 'sleep');
  }

  /** No more of them. */
  calm(): void {
    this.isCalm = true;
    this.database.dead = undefined;
    this.database.pauses = [];
  }

  /** @internal */ happen(fault: PlannedFault): void {
    const { kind, slot, ms } = fault;
    const { fleet, history } = this;
    const relay = fleet.alive(slot);
    const name = relay?.process.name ?? 'nobody';
    if (this.isCalm) return;
    switch (kind) {
      case 'kill':
        return fleet.kill(slot, ms);
      case 'lease in the future':
        history.fault(kind, name, NO_EXCUSE);
        if (relay !== undefined) this.database.putIntoFuture(name, DAY);
        return fleet.kill(slot, ms);
      case 'restart':
        return fleet.restart(slot, ms);
      case 'freeze':
      case 'sleep':
        // Once it is awake there is no excuse: it has to ask what it lost meanwhile before it publishes.
        history.fault(kind, `${name} ${ms.toFixed(0)} ms`, { ms, by: name });
        return relay?.process[kind](ms);
      case 'clock step':
        history.fault(kind, `${name} ${ms.toFixed(0)} ms`, { ms: 0, by: name });
        if (relay !== undefined) relay.process.skew += this.sleeps ? Math.abs(ms) : ms;
        return;
      case 'destination missing':
        return this.miss(fault);
      case 'paused':
        return this.pause(fault);
      case 'broker away':
      case 'broker refuses':
      case 'broker blocks':
      case 'broker silent':
      case 'broker unreachable':
        return this.trouble(kind, fault);
      default:
        return this.happenToDatabase(kind, fault);
    }
  }

  /** Of a transport or a part of it, by an operator, until the last such pause is over. It excuses nothing. @internal */
  pause({ ms, transport = 'default', ...part }: PlannedFault): void {
    const { topic = null, key = null }: { topic?: string | null; key?: string | null } = part;
    const { history, world, database } = this;
    const id = database.transports.get(transport);
    if (id === undefined) return;
    history.fault('paused', `${transport} ${topic ?? ''} ${key ?? ''} ${ms.toFixed(0)} ms`, NO_EXCUSE);
    const pause = {
      transport: id,
      topic,
      key,
      since: new Date(world.now),
      actor: 'operator',
      reason: 'a plan',
    };
    const isOther = (other: Pause): boolean => other.transport !== id || other.topic !== topic || other.key !== key;
    database.pauses = [...database.pauses.filter(isOther), pause];
    world.in(ms, () => (database.pauses = database.pauses.filter((other) => other !== pause)));
  }

  /** There is none of this name at the broker. @internal */
  miss({ topic = '', ms, transport = 'default' }: PlannedFault): void {
    const { history, world } = this;
    const { missing, changes, onBack } = this.brokers.get(transport) as BrokerState;
    history.fault('destination missing', `${topic} ${ms.toFixed(0)} ms`, NO_EXCUSE);
    const change = (): unknown => changes.set(topic, (changes.get(topic) ?? 0) + 1);
    change();
    missing.set(topic, Math.max(missing.get(topic) ?? 0, world.now + ms));
    world.in(ms, () => {
      if ((missing.get(topic) ?? 0) > world.now || this.isCalm) return;
      change();
      for (const tell of onBack) tell(topic);
    });
  }

  /** @internal */ happenToDatabase(kind: DatabaseFault, { ms, operation }: PlannedFault): void {
    const { fleet, history, world, databaseState, database } = this;
    switch (kind) {
      case 'database away':
        history.fault(kind, `${ms.toFixed(0)} ms`, { ms: ms + PATIENCE + LATE, by: undefined });
        databaseState.downUntil = Math.max(databaseState.downUntil, world.now + ms);
        return;
      case 'database crash':
        history.fault(kind, `${ms.toFixed(0)} ms`, { ms: ms + PATIENCE, by: undefined });
        database.crash();
        databaseState.downUntil = Math.max(databaseState.downUntil, world.now + ms);
        for (const { store } of fleet.relays.values()) store.reconnect();
        return;
      case 'statements fail':
        history.fault(kind, `${operation} ${ms.toFixed(0)} ms`, {
          ms,
          by: undefined,
          none: !MATTERS.has(operation ?? ''),
        });
        databaseState.failing.set(operation ?? '', world.now + ms);
        return;
      case 'failover':
        return this.failOver(replica(database), world.now, ms);
      case 'snapshot held':
        return this.hold(ms);
      default:
        return this.numbersGoBack(kind);
    }
  }

  /** Rows that are gone stay in the index, and reads walk over them. It explains nothing. @internal */
  hold(ms: number): void {
    const { history, world, database, plan } = this;
    history.fault('snapshot held', `${ms.toFixed(0)} ms`, { ms, by: undefined, none: true });
    this.heldUntil = Math.max(this.heldUntil, world.now + ms);
    database.dead ??= new DeadRows(plan.held?.each ?? 1, plan.floor);
    world.in(ms, () => {
      if (world.now >= this.heldUntil) database.dead = undefined;
    });
  }

  /** What was committed in the last `ms` is lost, and every session ends. @internal */
  failOver(promote: () => void, since: number, ms: number): void {
    const { world, history, databaseState, database, fleet } = this;
    world.in(ms, () => {
      if (this.isCalm) return;
      promote();
      databaseState.failovers += 1;
      history.failedOver = true;
      const lost = forgetLost(history, database, since);
      history.fault('failover', `${ms.toFixed(0)} ms and ${lost} messages are lost`, { ms: LATE, by: undefined });
      for (const { store } of fleet.relays.values()) store.reconnect();
    });
  }

  /** Nobody's connection ends over it. @internal */
  numbersGoBack(kind: 'numbers go back' | 'table emptied'): void {
    const { history, database, plan } = this;
    const gone = kind === 'table emptied' ? database.empty() : [];
    for (const { id } of gone) Object.assign(history.fates.get(id) as Fate, { emptied: true });
    database.setNumbersBack(plan.floor === 'probe');
    history.fault(kind, `${gone.length} rows are gone, the next number is ${database.nextSeq}`, NO_EXCUSE);
  }

  /** Of one broker. @internal */
  trouble(kind: BrokerFault, { ms, transport = 'default' }: PlannedFault): void {
    const { history, world, fleet } = this;
    const whose = transport === 'default' ? '' : ` of ${transport}`;
    history.fault(kind, `${ms.toFixed(0)} ms${whose}`, NO_EXCUSE);
    if (kind === 'broker blocks') {
      fleet.brokerSays('blocked', transport);
      world.in(ms, () => fleet.brokerSays('up', transport));
      return;
    }
    const broker = this.brokers.get(transport) as BrokerState;
    const until = LASTS[kind];
    broker[until] = Math.max(broker[until], world.now + ms);
  }
}

const LASTS = {
  'broker away': 'downUntil',
  'broker refuses': 'refusesUntil',
  'broker silent': 'silentUntil',
  'broker unreachable': 'unreachableUntil',
} as const;
