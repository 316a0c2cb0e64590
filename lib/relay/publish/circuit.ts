/**
 * The circuit of one transport: what an outage does to the claiming for it.
 *
 *   closed ──transport failure──▶ open ──after a delay──▶ probing ──success──▶ closed
 *                                   ▲                        │
 *                                   └──────── failure ───────┘   (delay doubles up to a cap)
 *
 * The delay goes on growing until a message got through: a broker that takes connections and no writes is away, too.
 * `blocked` is the broker's own request to wait; it ends when the broker says so, or turns into a failure.
 * Pure but for its own fields: time and chance are passed in.
 */
export class Circuit {
  state: 'closed' | 'open' | 'probing' | 'blocked' = 'closed';
  lastError: unknown;
  /** Monotonic ms at which the circuit opened first; for the report when it closes. */
  openedAt = 0;
  closedAt = -Infinity;
  /** Since the last message that got through. */
  failures = 0;

  constructor(
    readonly initialDelay = 500,
    readonly maxDelay = 30_000,
  ) {}

  /** @returns the delay until a probe, or `undefined` when a probe is waited for already */
  fail(error: unknown, now: number, random: number, maxDelay = this.maxDelay): number | undefined {
    this.lastError = error;
    if (this.state === 'open') return undefined;
    if (this.state === 'closed') this.openedAt = now;
    if (this.state === 'closed' && now - this.closedAt > this.maxDelay) this.failures = 0; // that was another outage
    this.state = 'open';
    this.failures += 1;
    const ceiling = Math.min(maxDelay, this.initialDelay * 2 ** Math.min(this.failures - 1, 20));
    return ceiling * (0.5 + random / 2);
  }

  openFor(now: number): number {
    return this.state === 'closed' ? 0 : now - this.openedAt;
  }

  probe(): void {
    if (this.state === 'open') this.state = 'probing';
  }

  /**
   * @param what got through
   * @returns for how long it was open when this closes it, else `undefined`
   */
  succeed(now: number, what: 'message' | 'connection' = 'message'): number | undefined {
    // A late success of a batch that was sent before the outage, or before the broker asked to wait, proves nothing about now.
    if (this.state === 'open' || (this.state === 'blocked' && what === 'message')) return undefined;
    if (what === 'message') this.failures = 0;
    if (this.state === 'closed') return undefined;
    const openFor = now - this.openedAt;
    this.state = 'closed';
    this.closedAt = now;
    this.lastError = undefined;
    return openFor;
  }

  block(reason: unknown, now: number): void {
    if (this.state !== 'closed' && this.state !== 'probing') return;
    if (this.state === 'closed') this.openedAt = now;
    this.state = 'blocked';
    this.lastError = reason;
  }

  unblock(now: number): number | undefined {
    return this.state === 'blocked' ? this.succeed(now, 'connection') : undefined;
  }

  /** A message that gets through changes something. */
  get isTroubled(): boolean {
    return this.state !== 'closed' || this.failures > 0;
  }

  /** Messages that may be handed over now: everything, one, or nothing. */
  get allows(): 'all' | 'one' | 'none' {
    return this.state === 'closed' ? 'all' : this.state === 'probing' ? 'one' : 'none';
  }
}
