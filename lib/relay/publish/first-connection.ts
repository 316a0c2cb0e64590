import { inCleanScope } from '../../time/async-scope.js';
import { within } from '../../time/clock.js';
import { Loop } from '../../time/loop.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import type { Outage } from './outage.js';
import type { Publisher } from './publisher.js';

/**
 * Connects when a relay starts, beside it: a wrong address or password is seen before there is a message, and what a
 * transport makes at its connect (queues, exchanges) is there. Who starts waits for nothing.
 *
 * Once there is a connection, whoever's, it asks whether the destinations that are known beforehand are there, and again while some
 * are missing: a wrong name is told before the first message. It asks as well about what a message found missing: that may be here
 * no more (its bucket went to another instance), and nobody else would hear that the destination is back.
 */
export class FirstConnection {
  private readonly kill = new AbortController();
  private readonly looks: Loop;
  /** A look is under way, perhaps one that did not end when it was given up. */
  private isLooking = false;
  /** Some may be missing. */
  private asksAgain = true;

  constructor(
    private readonly publisher: Pick<Publisher, 'open' | 'connected'>,
    private readonly outage: Outage,
    private readonly deps: Pick<
      TransportRelayDependencies,
      'name' | 'transport' | 'clock' | 'hooks' | 'options' | 'expected'
    >,
  ) {
    this.looks = new Loop(
      deps.clock,
      () => this.look(),
      () => LOOK_AGAIN,
    );
  }

  start(): void {
    const { transport } = this.deps;
    if (transport.findMissing !== undefined) this.looks.start(transport.connect === undefined ? 0 : UNTIL_CONNECTED);
    if (transport.connect === undefined || this.outage.circuit.allows !== 'all') return; // in an outage a probe connects
    inCleanScope(() => void this.connect(this.kill.signal));
  }

  /** Gives it up. */
  stop(): void {
    this.kill.abort();
    void this.looks.stop();
  }

  private async connect(signal: AbortSignal): Promise<void> {
    const { name: transport, clock, hooks, options } = this.deps;
    const began = clock.monotonic();
    try {
      await this.publisher.open(signal);
      if (signal.aborted) return;
      this.looks.nudge();
      const { kind = 'custom', broker } = options.transports.get(transport) ?? {};
      const took = clock.monotonic() - began;
      hooks.emit('connected', { transport, took, kind, ...(broker === undefined ? {} : { broker }) });
    } catch (error) {
      // What was given up, or overtaken by a probe or another connection, says nothing about now.
      if (!signal.aborted && !this.publisher.connected && this.outage.circuit.allows === 'all')
        this.outage.failed(error);
    }
  }

  /** @returns milliseconds until the next one */
  private async look(): Promise<number> {
    const { transport, clock, options, expected } = this.deps;
    const { destinations } = this.outage;
    const isConnected = this.publisher.connected || transport.connect === undefined;
    if (!isConnected || this.isLooking) return UNTIL_CONNECTED;
    const missed = destinations.toAskAbout();
    if (missed.length === 0 && !this.asksAgain) return LOOK_AGAIN;
    this.isLooking = true;
    const late = new AbortController();
    const signal = AbortSignal.any([this.kill.signal, late.signal]);
    const asked = inCleanScope(async () => transport.findMissing?.([...missed, ...(expected?.() ?? [])], signal));
    void asked.catch(() => undefined).then(() => (this.isLooking = false));
    const answer = asked.then((found = []) => {
      if (signal.aborted) return;
      destinations.looked(found);
      this.asksAgain = found.length > 0;
    });
    await within(clock, options.publishTimeout, answer).finally(() => late.abort());
    return LOOK_AGAIN;
  }
}

/** Milliseconds. */
const UNTIL_CONNECTED = 5_000;
const LOOK_AGAIN = 30_000;
