import { inCleanScope } from '../async-scope.js';
import type { Publisher } from '../publish/publisher.js';
import type { MissingDestination } from '../publish/transport.js';
import type { Absence } from './absence.js';
import { within } from './clock.js';
import type { LaneDependencies } from './lane.types.js';
import { Loop } from './loop.js';

/**
 * Asks once after the connect whether the destinations that are known beforehand are there, and again while some are missing: a
 * wrong name is told before the first message. It decides about no message, and nothing waits for it.
 */
export class MissingCheck {
  readonly loop: Loop;
  /** @internal */ kill = new AbortController();
  /** One that did not end when it was given up. @internal */
  underWay: Promise<unknown> | undefined;

  constructor(
    readonly publisher: Pick<Publisher, 'connected'>,
    readonly absence: Absence,
    readonly deps: Pick<LaneDependencies, 'transport' | 'clock' | 'options' | 'expected'>,
  ) {
    this.loop = new Loop(
      deps.clock,
      () => this.look(),
      () => LOOK_AGAIN,
    );
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

  /** @internal @returns the delay until the next one */
  async look(): Promise<number> {
    const isConnected = this.publisher.connected || this.deps.transport.connect === undefined;
    if (!isConnected || this.underWay !== undefined) return UNTIL_CONNECTED;
    const { kill, absence } = this;
    const found = await this.ask(kill.signal);
    if (kill.signal.aborted) return Infinity;
    if (found === undefined) return LOOK_AGAIN;
    absence.looked(found);
    return absence.destinations.missing.size > 0 ? LOOK_AGAIN : Infinity;
  }

  /** @internal `undefined`: no answer in time */
  async ask(signal: AbortSignal): Promise<readonly MissingDestination[] | undefined> {
    const { transport, clock, options, expected } = this.deps;
    const late = new AbortController();
    const ends = AbortSignal.any([signal, late.signal]);
    const asked = inCleanScope(async () => transport.findMissing?.(expected?.() ?? [], ends));
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
