import type { OutboxMessage, PublishContext, PublishResult } from '../../lib/index.js';
import { OutboxTransport, PUBLISHED, type TransportStateListener } from '../../lib/transports/transport.js';
import { NO_EXCUSE, type History } from './history.js';
import type { Rates } from './plan-faults.js';
import type { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import type { Line, Witness } from './witness.js';
import type { World } from './world.js';

/** What is wrong with the broker now, for everybody. */
export interface BrokerState {
  /** Until then nothing reaches it. */
  downUntil: number;
  /** Until then it takes connections, and no writes. */
  refusesUntil: number;
  /** Until then it takes connections, and answers nothing that is written to them. */
  silentUntil: number;
  /** Until then nothing reaches it, and nobody says so. */
  unreachableUntil: number;
  /** Of a topic, until when there is no such destination; how often that changed; who wants to know. */
  missing: Map<string, number>;
  readonly changes: Map<string, number>;
  readonly onBack: ((topic: string) => void)[];
  rates: Pick<Rates, 'breaks' | 'hangs' | 'lateArrivals' | 'laggards'>;
}
interface Run {
  readonly at: number;
  readonly messages: OutboxMessage[];
}
export const healthy = (rates: BrokerState['rates']): Omit<BrokerState, 'changes' | 'onBack'> => ({
  missing: new Map(),
  downUntil: 0,
  refusesUntil: 0,
  silentUntil: 0,
  unreachableUntil: 0,
  rates,
});
/** Milliseconds after which a frozen buffer is empty. */
const BUFFERED = 8_000;

/** Of the times when the broker takes no writes, half concern a third of the keys only. */
const isPartial = (refusesUntil: number): boolean => Math.floor(refusesUntil) % 2 === 0;

const numbers = (message: OutboxMessage): number[] => String(message.body).split(' ').map(Number);
/** How often the broker refuses it: a number in the payload. */
const refusals = (message: OutboxMessage): number => numbers(message)[1] ?? 0;

/** One process's connection to a broker that all share. What `reset` cuts off does not arrive any more, or late. */
export class SimulatedTransport extends OutboxTransport implements Line {
  readonly receipt = 'broker' as const;
  override readonly atomicRuns: boolean;
  /** Called when something goes out. */
  sends: (what: 'connect' | 'publish') => void = () => undefined;
  /** Called with the message that no process survives. */
  dies: () => void = () => undefined;
  onState: TransportStateListener | undefined;
  /** @internal */ connection = 0;
  /** @internal */ publishes = 0;
  /** @internal */ readonly random: Random;
  /** @internal Of faults that are drawn on the way: no two transports share one. */ readonly label: string;

  constructor(
    readonly world: World,
    seed: number,
    readonly history: History,
    readonly witness: Witness,
    readonly state: BrokerState,
    readonly process: SimulatedProcess,
    /** Its number in the tables. */
    readonly id: number,
    atomicRuns: boolean,
    readonly lethal: number | null,
    /** Milliseconds in which a broker that lags still answers: within the publish timeout. */
    readonly longest: number,
  ) {
    super();
    this.atomicRuns = atomicRuns;
    this.label = id === 0 ? process.name : `${process.name} transport ${id}`;
    this.random = Random.of(seed, `${this.label} broker`);
  }

  override async connect(signal: AbortSignal, onState?: TransportStateListener): Promise<void> {
    this.onState = onState;
    this.sends('connect');
    if (this.world.now < this.state.unreachableUntil) return noAnswer(signal);
    const ms = this.random.chance(0.1) ? this.random.between(3, 300) : this.random.between(0.2, 3);
    await new Promise<void>((resolve) => this.world.in(ms, resolve, this.process));
    if (this.world.now < this.state.downUntil) throw new Error('connection refused');
  }

  override publish(batch: readonly OutboxMessage[], { report }: PublishContext): Promise<void> {
    const { connection, random, witness, process, world, state } = this;
    const { breaksAt, hangs, arrives, lag } = this.mishap(batch.length);
    const runs = this.runsOf(batch);
    for (const { id, body } of batch) {
      if (body === null) this.history.violated(1, `${id} was published without its payload`); // all of them have one
    }
    witness.publishing(this, runs);
    this.sends('publish');
    if (batch.some((message) => this.isLethal(message))) this.dies();
    return new Promise((resolve, reject) => {
      let left = batch.length;
      let delay = 0;
      const answered = (run: Run, result: PublishResult | undefined): void => {
        if (hangs || connection !== this.connection) return;
        if (result === undefined || run.at === breaksAt - 1) {
          witness.broke(this);
          return reject(new Error('connection lost'));
        }
        run.messages.forEach((message, i) => {
          witness.resolved(this, message, result.ok);
          this.heard(message, result);
          report(run.at + i, result);
        });
        left -= run.messages.length;
        if (left === 0) resolve();
      };
      for (const run of runs) {
        delay += random.between(0.01, 1);
        const back = lag + random.between(0.1, 2);
        // On its way: it arrives whatever becomes of the process, unless the connection is torn down.
        world.owe(delay, () => {
          if (connection !== this.connection) return;
          const isSilent = world.now < Math.max(state.silentUntil, state.unreachableUntil);
          const refuses = world.now < state.refusesUntil && !isPartial(state.refusesUntil);
          const isUp = !isSilent && world.now >= state.downUntil && !refuses;
          const isLost = run.at >= breaksAt || !isUp || run.messages.some(this.isLethal);
          const result = isLost ? undefined : this.take(run.messages);
          if (!isSilent) world.in(back, () => answered(run, result), process);
          if (isLost && arrives !== undefined) world.owe(arrives, () => this.takeLate(run.messages));
        });
      }
    });
  }

  override reset(): void {
    this.connection += 1;
    this.witness.tornDown(this);
  }
  override async close(): Promise<void> {
    this.connection += 1;
  }

  /** @internal Always as many draws, so that one mishap does not move the next. */
  mishap(length: number): { breaksAt: number; hangs: boolean; arrives: number | undefined; lag: number } {
    const { random, history, state } = this;
    const [first, second, third, place] = [random.next(), random.next(), random.next(), random.next()];
    const name = `${this.label} publish ${(this.publishes += 1)}`;
    const { breaks, hangs, lateArrivals, laggards } = state.rates;
    const isLate = third < lateArrivals && history.chance('late arrival', `${name} late`, NO_EXCUSE);
    const isBroken =
      isLate || (first < breaks && history.chance('connection to the broker breaks', `${name} breaks`, NO_EXCUSE));
    return {
      breaksAt: isBroken ? Math.floor(place * (length + 1)) : Infinity,
      hangs: second < hangs && history.chance('the broker does not answer', `${name} hangs`, NO_EXCUSE),
      arrives: isLate ? place * BUFFERED : undefined,
      lag: first > 1 - laggards ? place * this.longest : 0,
    };
  }

  /** @internal Neighbours of one key, where the broker takes them all or none. */
  runsOf(batch: readonly OutboxMessage[]): Run[] {
    const runs: Run[] = [];
    batch.forEach((message, at) => {
      const last = runs.at(-1);
      const isNeighbour = message.key !== null && last?.messages[0]?.key === message.key;
      if (this.atomicRuns && isNeighbour && last?.messages[0]?.topic === message.topic) last.messages.push(message);
      else runs.push({ at, messages: [message] });
    });
    return runs;
  }

  /** @internal */ take(run: readonly OutboxMessage[]): PublishResult {
    const { history, process } = this;
    if (this.isAway(run[0] as OutboxMessage))
      return { ok: false, blame: 'transport', suspect: 'destination', error: new Error('not enough replicas') };
    const bad = run.find((message) => this.isRefused(message));
    if (bad !== undefined) {
      const fate = history.fates.get(bad.id);
      if (history.traced) history.tell(`${process.name}: broker refuses ${fate?.name} and ${run.length - 1} with it`);
      if (run.length > 1) return { ok: false, blame: 'collateral', error: new Error('refused with others') };
      if (fate !== undefined) this.witness.refused(fate);
      return { ok: false, blame: 'message', error: new Error('refused') };
    }
    for (const { id } of run) this.witness.seen(id, process.name);
    return PUBLISHED;
  }

  /** @internal The process has the broker's answer. */
  heard(_message: OutboxMessage, _result: PublishResult): void {}

  /** @internal Its destination has no leader. */
  isAway({ key, id }: OutboxMessage): boolean {
    const { refusesUntil } = this.state;
    return (
      this.world.now < refusesUntil &&
      isPartial(refusesUntil) &&
      (key ?? id).charCodeAt((key ?? id).length - 1) % 3 === 0
    );
  }

  /** @internal Nobody is there to hear of it. */
  takeLate(run: readonly OutboxMessage[]): void {
    if (run.some((message) => this.isRefused(message))) return;
    for (const { id } of run) this.witness.seen(id, `${this.process.name}, late`);
  }

  /** @internal */ readonly isLethal = (message: OutboxMessage): boolean =>
    this.lethal !== null && numbers(message)[0] === this.lethal;

  /** @internal */ isRefused(message: OutboxMessage): boolean {
    return (this.history.fates.get(message.id)?.refused ?? Infinity) < refusals(message);
  }
}

/** As a connection attempt whose packets get lost: it ends when whoever makes it gives up. */
export const noAnswer = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
