import { inCleanScope } from '../../time/async-scope.js';
import type { Publisher } from './publisher.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import { MissingCheck } from './missing-check.js';
import type { Outage } from './outage.js';

/**
 * Connects when a relay starts, beside it: a wrong address or password is seen before there is a message, and what a
 * transport makes at its connect (queues, exchanges) is there. Who starts waits for nothing.
 */
export class FirstConnection {
  private kill = new AbortController();
  private readonly check: MissingCheck;

  constructor(
    readonly publisher: Publisher,
    readonly outage: Outage,
    readonly deps: Pick<TransportRelayDependencies, 'name' | 'transport' | 'clock' | 'hooks' | 'options' | 'expected'>,
  ) {
    this.check = new MissingCheck(publisher, outage.absence, deps);
  }

  start(): void {
    this.check.start();
    if (this.deps.transport.connect === undefined || this.outage.circuit.allows !== 'all') return; // in an outage a probe connects
    inCleanScope(() => void this.connect(this.kill.signal));
  }

  /** Gives it up. */
  stop(): void {
    this.check.stop();
    this.kill.abort();
  }

  /** After a stop. */
  again(): void {
    this.kill = new AbortController();
  }

  private async connect(signal: AbortSignal): Promise<void> {
    const { name: transport, clock, hooks, options } = this.deps;
    const began = clock.monotonic();
    try {
      await this.publisher.open(signal);
      if (signal.aborted) return;
      this.check.connected();
      const { kind = 'custom', broker } = options.transports.get(transport) ?? {};
      const took = clock.monotonic() - began;
      hooks.emit('connected', { transport, took, kind, ...(broker === undefined ? {} : { broker }) });
    } catch (error) {
      // What was given up, or overtaken by a probe or another connection, says nothing about now.
      if (!signal.aborted && !this.publisher.connected && this.outage.circuit.allows === 'all')
        this.outage.failed(error);
    }
  }
}
