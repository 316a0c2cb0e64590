import { inCleanScope } from '../../time/async-scope.js';
import type { Publisher } from './publisher.js';
import type { ExpectedMessages, MissingDestination } from '../../transports/transport.js';
import type { Absence } from './absence.js';
import { within } from '../../time/clock.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import { Loop } from '../../time/loop.js';

/**
 * Asks once after the connect whether the destinations that are known beforehand are there, and again while some are missing: a
 * wrong name is told before the first message. It asks as well about what a message found missing: that may be here no more
 * (its bucket went to another instance), and nobody else would hear that the destination is back. Nothing waits for it.
 */
export class MissingCheck {
  readonly loop: Loop;
  private kill = new AbortController();
  /** One that did not end when it was given up. */
  private underWay: Promise<unknown> | undefined;
  private lookedAt = -Infinity;

  constructor(
    readonly publisher: Pick<Publisher, 'connected'>,
    readonly absence: Absence,
    readonly deps: Pick<TransportRelayDependencies, 'transport' | 'clock' | 'options' | 'expected'>,
  ) {
    this.loop = new Loop(
      deps.clock,
      () => this.look(),
      () => LOOK_AGAIN,
    );
    absence.asks = () => this.loop.within(Math.max(0, this.lookedAt + PAUSE - deps.clock.monotonic()));
  }

  start(): void {
    if (this.deps.transport.findMissing === undefined) return;
    this.kill = new AbortController();
    this.loop.start();
  }

  /** The transport is connected. */
  connected(): void {
    this.loop.nudge();
  }

  stop(): void {
    this.kill.abort();
    void this.loop.stop();
  }

  /** @returns the delay until the next one */
  private async look(): Promise<number> {
    const isConnected = this.publisher.connected || this.deps.transport.connect === undefined;
    if (!isConnected || this.underWay !== undefined) return UNTIL_CONNECTED;
    const { kill, absence } = this;
    this.lookedAt = this.deps.clock.monotonic();
    const found = await this.ask(kill.signal);
    if (kill.signal.aborted) return Infinity;
    if (found === undefined) return LOOK_AGAIN;
    absence.looked(found);
    const { missing } = absence.destinations;
    return missing.size > 0 || this.missedByMessages.length > 0 ? LOOK_AGAIN : Infinity;
  }

  private get missedByMessages(): ExpectedMessages[] {
    return this.absence.destinations.toAskAbout(this.deps.clock.monotonic());
  }

  /** `undefined`: no answer in time */
  private async ask(signal: AbortSignal): Promise<readonly MissingDestination[] | undefined> {
    const { transport, clock, options, expected } = this.deps;
    const late = new AbortController();
    const ends = AbortSignal.any([signal, late.signal]);
    const about = [...this.missedByMessages, ...(expected?.() ?? [])];
    const asked = inCleanScope(async () => transport.findMissing?.(about, ends));
    const underWay = asked.catch(() => undefined).then(() => (this.underWay = undefined));
    this.underWay = underWay;
    let found: readonly MissingDestination[] | undefined;
    await within(
      clock,
      options.publishTimeout,
      asked.then((answer) => (found = answer)),
    ).finally(() => late.abort());
    return found;
  }
}

/** Milliseconds. */
const UNTIL_CONNECTED = 5_000;
const LOOK_AGAIN = 30_000;
/** Between two looks, however many are found missing by messages. */
const PAUSE = 5_000;
