import { systemClock } from '../../time/clock.js';
import type { FailureCause } from '../failure.js';

/** Milliseconds in which a broker that was away is not believed when it does not find a queue or an exchange. */
const RECOVERY = 10_000;

/** Whether the broker came back a moment ago. Outlives connections: the one that was lost is not the one that is back. */
export class Recovery {
  /** The broker could not be reached, or was lost for no fault of a message. */ private away = false;
  /** monotonic */ private until = -Infinity;

  /** @param beside of another connection to the same broker, whose word counts as well */
  constructor(private readonly beside?: Recovery) {}

  get isOn(): boolean {
    return systemClock.monotonic() < this.until || this.beside?.isOn === true;
  }

  lost({ fault }: FailureCause): void {
    this.away ||= fault === 'transport';
  }

  connected(): void {
    if (this.away) this.until = systemClock.monotonic() + RECOVERY;
    this.away = false;
  }
}
