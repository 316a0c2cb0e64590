import type { History } from './history.js';
import type { SimulatedProcess } from './process.js';
import type { Random, World } from './world.js';

export interface WireFaults {
  /** Until then the database answers nobody. */
  downUntil: number;
  /** Shares of all statements. */
  lostRequests: number;
  lostReplies: number;
  /** Executed long after the client gave up. */
  lateRequests: number;
  slow: number;
}

/** Milliseconds until a client gives up on an answer. */
const PATIENCE = 3_000;

/** One process's way to the database: a statement takes effect at one moment, or never; its answer may be lost. */
export class Wire {
  /** Called when the client had to open another connection. */
  lost: () => void = () => undefined;

  constructor(
    readonly world: World,
    readonly random: Random,
    readonly history: History,
    readonly faults: WireFaults,
    readonly process: SimulatedProcess,
  ) {}

  readonly call = <T>(operation: string, effect: () => T): Promise<T> => {
    const { world, random, process } = this;
    const fate = this.fate(operation);
    return new Promise((resolve, reject) => {
      if (fate === 'lost request') return this.giveUp(reject);
      const there = fate === 'late request' ? PATIENCE + random.between(1, 4_000) : this.delay();
      world.in(there, () => {
        let answer: () => void;
        try {
          const result = effect();
          this.history.tell(`${process.name}: ${operation} takes effect ${typeof result === 'boolean' ? result : ''}`);
          answer = () => resolve(result);
        } catch (error) {
          answer = () => reject(error as Error);
        }
        if (fate === undefined) world.in(this.delay(), answer, process);
      });
      if (fate !== undefined) this.giveUp(reject);
    });
  };

  /** @internal */ fate(operation: string): 'lost request' | 'lost reply' | 'late request' | undefined {
    const { faults, random } = this;
    if (this.world.now < faults.downUntil) return 'lost request';
    const dice = random.next();
    const fate =
      dice < faults.lostRequests
        ? 'lost request'
        : dice < faults.lostRequests + faults.lostReplies
          ? 'lost reply'
          : dice < faults.lostRequests + faults.lostReplies + faults.lateRequests
            ? 'late request'
            : undefined;
    if (fate !== undefined) this.history.fault(fate, `${this.process.name} ${operation}`);
    return fate;
  }

  /** @internal */ delay(): number {
    return this.random.chance(this.faults.slow) ? this.random.between(5, 500) : this.random.between(0.05, 2);
  }

  /** @internal */ giveUp(reject: (error: Error) => void): void {
    const error = Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
    this.world.in(
      this.random.between(1, PATIENCE),
      () => {
        this.lost();
        reject(error);
      },
      this.process,
    );
  }
}
