import { stopwatch, systemClock } from '../../time/clock.js';
import { rest } from '../run.js';
import type { CheckedDrain } from './drain-options.js';

/** Milliseconds that the database may take for a question, also where the wait ends meanwhile. */
const PATIENCE = 5_000;

/** When a wait is over: after its time, or with its signal. */
export class DrainEnd {
  readonly passed = stopwatch(systemClock);

  constructor(readonly options: Pick<CheckedDrain, 'timeout' | 'signal'>) {}

  get left(): number {
    return this.options.timeout - this.passed();
  }

  get isAborted(): boolean {
    return this.options.signal?.aborted === true;
  }

  get isOver(): boolean {
    return this.isAborted || this.left <= 0;
  }

  /** @returns `undefined`: the wait is over, and no answer came. The question ends by itself then, and how is nobody's business. */
  async inTime<T>(question: Promise<T>): Promise<T | undefined> {
    const answered = new AbortController();
    const { signal = answered.signal } = this.options;
    const ended = rest(this.left, AbortSignal.any([signal, answered.signal]));
    const late = Promise.all([ended, rest(PATIENCE, answered.signal)]).then(() => undefined);
    return Promise.race([question, late]).finally(() => answered.abort());
  }
}
