import type { OutboxMessage, MissingDestination, PublishResult } from '../../lib/index.js';
import { noAnswer, SimulatedTransport } from './broker.js';
import { Random } from './random.js';
import type { Said } from './said.js';

/** Milliseconds in which a missing destination is told after a start, or known to be back: from one look to the next, and a connect. */
const TOLD = 40_000;
/** Milliseconds from the end of an outage to the next try, at most. */
const A_TRY = 30_000;

/** To a broker whose destinations may be missing, and which says so to whoever asks. */
export class AskingTransport extends SimulatedTransport {
  /** @internal */ readonly asks: Random;

  constructor(
    readonly said: Said,
    /** Those that are known before there is a message. */
    readonly topics: readonly string[],
    ...args: ConstructorParameters<typeof SimulatedTransport>
  ) {
    super(...args);
    this.asks = Random.of(args[1], `${this.label} asks`);
  }

  override destinationOf({ topic }: Pick<OutboxMessage, 'topic'>): string {
    return `${topic} of ${this.id}`;
  }

  override async findMissing(_expected: unknown, signal: AbortSignal): Promise<MissingDestination[]> {
    const { world, state, asks, process } = this;
    const [there, back] = [asks.between(0.2, 30), asks.between(0.2, 30)];
    await new Promise<void>((resolve) => world.in(there, resolve, process));
    if (world.now < Math.max(state.silentUntil, state.unreachableUntil)) return noAnswer(signal);
    if (world.now < state.downUntil) throw new Error('connection refused');
    const missing = this.topics.filter((topic) => this.isMissing(topic));
    await new Promise<void>((resolve) => world.in(back, resolve, process));
    if (signal.aborted) return [];
    for (const topic of this.topics) this.hears(topic, !missing.includes(topic));
    return missing.map((topic) => ({ destination: this.destinationOf({ topic }), error: new Error('There is none.') }));
  }

  /**
   * What the relay must have told some time after its start, and after such a one came back for the first time. Who learns of one by
   * its messages learns by them that it is back, and may have given its bucket to another one.
   */
  watch(): void {
    const atStart = new Set(this.topics.filter((topic) => this.isMissing(topic)));
    for (const topic of atStart) this.expects(topic, true);
    this.state.onBack.push((topic) => {
      if (atStart.delete(topic)) this.expects(topic, false);
    });
  }

  /** @internal Unless that changed meanwhile. While the broker is away, or takes nothing, nobody asks: the time begins anew with its next try. */
  expects(topic: string, missing: boolean): void {
    const { world, state, said, process } = this;
    const changes = state.changes.get(topic);
    const from = world.now;
    const told = (): void => {
      if (state.changes.get(topic) !== changes) return;
      const back = Math.max(state.silentUntil, state.unreachableUntil, state.downUntil, state.refusesUntil);
      if (back <= from) said.mustBeTold(process.name, this.destinationOf({ topic }), missing);
      else world.in(Math.max(0, back + A_TRY - world.now), () => this.expects(topic, missing), process);
    };
    world.in(TOLD, told, process);
  }

  /** @internal */ override take(run: readonly OutboxMessage[]): PublishResult {
    const [{ topic }] = run as [OutboxMessage];
    if (!this.isMissing(topic)) return super.take(run);
    const destination = this.destinationOf({ topic });
    const error = new Error('There is none.');
    return { ok: false, blame: 'transport', suspect: 'destination', certain: true, destination, error };
  }

  /** @internal */ override takeLate(run: readonly OutboxMessage[]): void {
    if (!this.isMissing((run as [OutboxMessage])[0].topic)) super.takeLate(run);
  }

  /** @internal */ override heard({ topic }: OutboxMessage, result: PublishResult): void {
    if (result.ok) this.hears(topic, true);
    else if (result.destination !== undefined) this.hears(topic, false);
  }

  /** @internal */ hears(topic: string, isThere: boolean): void {
    this.said.word(this.process.name, this.destinationOf({ topic }), isThere);
  }

  /** @internal */ isMissing(topic: string): boolean {
    return this.world.now < (this.state.missing.get(topic) ?? 0);
  }
}
