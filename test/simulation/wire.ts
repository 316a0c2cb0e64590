import { STATEMENT_TIMEOUT } from '../../lib/store/database-errors.js';
import type { History } from './history.js';
import type { Rates } from './plan-faults.js';
import type { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import type { World } from './world.js';

/** What is wrong with the database now, for everybody. */
export interface DatabaseState {
  /** Until then it answers nobody. */
  downUntil: number;
  /** How often another server took its place: what was sent to the one before reaches nobody. */
  failovers: number;
  /** Whoever loses its connection loses row locks with it. */
  readonly holdsLocks: boolean;
  /** Until then statements of this name are refused. */
  readonly failing: Map<string, number>;
  rates: Pick<Rates, 'lostRequests' | 'lostReplies' | 'lateRequests' | 'errors' | 'slow'>;
}
/** Of one process and statement. */
interface Calls {
  readonly random: Random;
  count: number;
  /** For their time, with none between that got through although it walked over much. */
  cancelled: number;
}
type Fate = 'lost request' | 'lost reply' | 'late request' | 'error' | undefined;

/** Milliseconds until a client gives up on an answer, at most. */
export const PATIENCE = 3_000;
/** Milliseconds after that in which a request may still arrive. */
export const LATE = 9_000;

/** Statements in a row: each asks for an eighth of the one before. */
const CANCELLED = 3;

/** Statements of which the failure may make a message be published twice. */
export const MATTERS: ReadonlySet<string> = new Set([
  'settle',
  'settleParked',
  'take',
  'acquire',
  'renew',
  'giveBack',
  'lockRows',
  'commitRows',
  'repark',
]);

/** One process's way to the database: a statement takes effect at one moment, or never; its answer may be lost. */
export class Wire {
  /** Called when the client had to open another connection. */
  lost: () => void = () => undefined;
  /** Milliseconds that the statement takes, which took effect just now. */
  cost: (operation: string) => number = () => 0;
  /** Each statement by its name and number: what happens to one does not depend on how many others there were. */
  readonly calls = new Map<string, Calls>();

  constructor(
    readonly world: World,
    readonly seed: number,
    readonly history: History,
    readonly state: DatabaseState,
    readonly process: SimulatedProcess,
  ) {}

  readonly call = <T>(operation: string, effect: () => T): Promise<T> => {
    const { world, process, history } = this;
    const call = this.calls.get(operation) ?? this.first(operation);
    call.count += 1;
    const { random } = call;
    const fate = this.fate(operation, call);
    const there = this.delay(random);
    const back = this.delay(random);
    const extra = random.next();
    const { failovers } = this.state;
    return new Promise((resolve, reject) => {
      if (fate === 'lost request') return this.giveUp(reject, extra);
      if (fate === 'error') return void world.in(there + back, () => reject(refused()), process);
      const ms = fate === 'late request' ? PATIENCE + extra * LATE : there;
      world.owe(ms, () => {
        if (failovers !== this.state.failovers) return this.giveUp(reject, 0);
        let answer: () => void;
        let took = 0;
        try {
          history.actor = process.name;
          const result = effect();
          if (history.traced) history.tell(`${process.name}: ${operation} takes effect ${detail(result)}`);
          took = this.walks(operation, call);
          answer = () => (took < STATEMENT_TIMEOUT ? resolve(result) : reject(cancelled()));
        } catch (error) {
          answer = () => reject(error as Error);
          took = (error as { took?: number }).took ?? 0;
        }
        if (fate === undefined) world.in(back + took, answer, process);
      });
      if (fate !== undefined) this.giveUp(reject, extra);
    });
  };

  /** Milliseconds; one that would take longer is cancelled, and whoever sends it again has to ask for less. @internal */
  walks(operation: string, call: Calls): number {
    const { history, process } = this;
    const took = Math.min(this.cost(operation), STATEMENT_TIMEOUT);
    history.readStood(process.name, operation, took);
    if (took === STATEMENT_TIMEOUT) call.cancelled += 1;
    else if (took > STATEMENT_TIMEOUT / 8) call.cancelled = 0;
    if (took > 0 && history.traced) history.tell(`${process.name}: ${operation} walks for ${took.toFixed(0)} ms`);
    if (call.cancelled === CANCELLED)
      history.violated(15, `${process.name}: ${operation} was cancelled for its time ${CANCELLED} times in a row`);
    return took;
  }

  /** @internal */ first(operation: string): Calls {
    const call = { random: Random.of(this.seed, `${this.process.name} ${operation}`), count: 0, cancelled: 0 };
    this.calls.set(operation, call);
    return call;
  }

  /** @internal */ fate(operation: string, { random, count }: Calls): Fate {
    const { state, world } = this;
    const dice = random.next();
    if (world.now < state.downUntil) return 'lost request';
    if (world.now < (state.failing.get(operation) ?? 0)) return 'error';
    const { lostRequests, lostReplies, lateRequests, errors } = state.rates;
    if (dice >= lostRequests + lostReplies + lateRequests + errors) return undefined;
    const fate =
      dice < lostRequests
        ? 'lost request'
        : dice < lostRequests + lostReplies
          ? 'lost reply'
          : dice < lostRequests + lostReplies + lateRequests
            ? 'late request'
            : 'error';
    const { name } = this.process;
    // Row locks that are lost with the connection are missed when the publish that they are for has ended.
    const ms = fate === 'late request' || state.holdsLocks ? PATIENCE + LATE : PATIENCE;
    const excuse = { ms, by: name, none: !MATTERS.has(operation) && !state.holdsLocks };
    return this.history.chance(fate, `${name} ${operation} ${count}`, excuse) ? fate : undefined;
  }

  /** @internal */ delay(random: Random): number {
    const dice = random.next();
    const { slow } = this.state.rates;
    return dice < slow ? 5 + (dice / slow) * 495 : 0.05 + dice * 2;
  }

  /** @internal */ giveUp(reject: (error: Error) => void, dice: number): void {
    const error = Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
    const later = (): void => {
      this.lost();
      reject(error);
    };
    this.world.in(1 + dice * (PATIENCE - 1), later, this.process);
  }
}

const cancelled = (): Error =>
  Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
const refused = (): Error => Object.assign(new Error('deadlock detected'), { code: '40P01' });

function detail(result: unknown): string {
  if (typeof result === 'boolean' || typeof result === 'number') return String(result);
  if (typeof result !== 'object' || result === null) return '';
  if ('affected' in result) return String(result.affected);
  if ('messages' in result) return String((result.messages as readonly unknown[]).length);
  return Array.isArray(result) ? String(result.length) : '';
}
