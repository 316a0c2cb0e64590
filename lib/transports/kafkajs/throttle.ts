import { systemClock } from '../../time/clock.js';
import type { TransportStateListener } from '../transport.js';

/** Milliseconds: what is shorter passes unnoticed between two batches. */
const SHORT = 100;

/**
 * A client that sends more than its quota allows is answered, and then not heard for as long as the answer says. That is no
 * outage: until then nothing more is handed over, which would wait for its timeout behind a connection that is not read.
 */
export class KafkaThrottle {
  /** By the monotonic clock. */ private until = -Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly onState: TransportStateListener) {}

  /** Milliseconds for which the broker does not listen yet. */
  get left(): number {
    return Math.max(0, this.until - systemClock.monotonic());
  }

  /** For people; `undefined`: it listens. */
  get text(): string | undefined {
    const { left } = this;
    if (left === 0) return undefined;
    return `Kafka throttles this client for ${Math.ceil(left / 1_000)} s more, as it sends more than its quota allows`;
  }

  /** @param ms what an answer of a broker said */
  hear(ms: number): void {
    if (!(ms > SHORT) || ms <= this.left) return;
    this.until = systemClock.monotonic() + ms;
    this.cancel?.();
    this.cancel = systemClock.after(ms, () => this.end());
    this.onState('blocked', `${this.text}.`);
  }

  /** Over, or of connections that are gone. */
  end(): void {
    this.cancel?.();
    if (this.cancel === undefined) return;
    this.cancel = undefined;
    this.until = -Infinity;
    this.onState('up');
  }
}
