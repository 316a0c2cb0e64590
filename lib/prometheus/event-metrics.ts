import { timeOfUuidV7 } from '../message/uuid-v7.js';
import type { OutboxEventMap, OutboxEventName, OutboxEvents } from '../observe/events.js';
import type { Clock } from '../time/clock.js';
import { RESULTS } from './call-durations.js';
import { DISTRIBUTIONS, TALLIES } from './catalogue.js';
import { Distribution, Tally } from './samples.js';

/** Seconds. */
export const LATENCY_BOUNDS: readonly number[] = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
];
const BATCH_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/** Seconds of one call. */
const CALL_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const ATTEMPT_BOUNDS = [1, 2, 3, 5, 10, 20, 50];
const BLAMES = ['message', 'transport', 'collateral'] as const;

/** What the events of one outbox add up to. */
export class EventMetrics {
  private readonly tally: Readonly<Record<keyof typeof TALLIES, Tally>>;
  private readonly latency: Distribution;
  private readonly batch: Distribution;
  private readonly attempts: Distribution;
  readonly publish: Distribution;
  readonly handler: Distribution;
  /** When the held snapshot began, by the clock; `undefined`: none is held. */
  private snapshotHeldAt: number | undefined;
  private readonly ends: (() => void)[] = [];

  constructor(
    outbox: string,
    private readonly events: Pick<OutboxEvents, 'on' | 'dropped'>,
    bounds: readonly number[],
    private readonly clock: Pick<Clock, 'wall' | 'monotonic'>,
  ) {
    this.tally = Object.fromEntries(
      Object.entries(TALLIES).map(([name, metric]) => [name, new Tally(metric, outbox)]),
    ) as typeof this.tally;
    this.latency = new Distribution(DISTRIBUTIONS.latency, outbox, bounds);
    this.batch = new Distribution(DISTRIBUTIONS.batch, outbox, BATCH_BOUNDS);
    this.attempts = new Distribution(DISTRIBUTIONS.attempts, outbox, ATTEMPT_BOUNDS);
    this.publish = new Distribution(DISTRIBUTIONS.publish, outbox, CALL_BOUNDS);
    this.handler = new Distribution(DISTRIBUTIONS.handler, outbox, CALL_BOUNDS);
    this.listenToMessages();
    this.listenToRelay();
  }

  /** By the metric's name. */
  all(): (Tally | Distribution)[] {
    const { eventsDropped } = this.tally;
    const [told] = eventsDropped.samples();
    eventsDropped.add(this.events.dropped - (told?.value ?? 0));
    return [...Object.values(this.tally), this.latency, this.batch, this.attempts, this.publish, this.handler];
  }

  /** Seconds. */
  get snapshotHeldFor(): number {
    return this.snapshotHeldAt === undefined ? 0 : (this.clock.monotonic() - this.snapshotHeldAt) / 1_000;
  }

  close(): void {
    for (const end of this.ends.splice(0)) end();
  }

  private on<K extends OutboxEventName>(name: K, listener: (event: OutboxEventMap[K]) => unknown): void {
    this.ends.push(this.events.on(name, listener));
  }

  private listenToMessages(): void {
    const { tally } = this;
    this.on('enqueued', ({ ids }) => tally.enqueued.add(ids.length));
    this.on('deduplicated', ({ ids }) => tally.deduplicated.add(ids.length));
    this.on('published', (event) => this.published(event));
    this.on('failed', ({ transport, count, blame }) => tally.failures.add(count, transport, blame));
    this.on('retried', ({ transport, attempts }) => {
      tally.retried.add(1, transport);
      this.attempts.observe(attempts, transport);
    });
    this.on('dead', ({ transport, attempts }) => {
      tally.dead.add(1, transport);
      this.attempts.observe(attempts, transport);
    });
  }

  private listenToRelay(): void {
    const { tally } = this;
    this.on('started', ({ role, transports }) => {
      if (role !== 'enqueue-only') for (const transport of transports) this.begin(transport);
    });
    this.on('circuitOpened', ({ transport }) => tally.circuitOpened.add(1, transport));
    this.on('destinationAway', ({ transport }) => tally.destinationAway.add(1, transport));
    this.on('leasesAcquired', ({ transport, buckets }) => tally.leasesAcquired.add(buckets.length, transport));
    this.on('leasesLost', ({ transport, buckets }) => tally.leasesLost.add(buckets.length, transport));
    this.on('leasesExpired', ({ buckets }) => tally.leasesExpired.add(buckets));
    this.on('snapshotHeld', ({ heldFor }) => (this.snapshotHeldAt = this.clock.monotonic() - heldFor));
    this.on('snapshotReleased', () => (this.snapshotHeldAt = undefined));
    this.on('stopped', () => (this.snapshotHeldAt = undefined));
    this.on('cleaned', (rows) => {
      for (const kind of ['published', 'dead', 'dedup'] as const) tally.cleaned.add(rows[kind], kind);
    });
    this.on('error', ({ operation }) => tally.errors.add(1, operation));
    this.on('warning', () => tally.warnings.add(1));
  }

  /** Every line of a transport is there before something happens. */
  private begin(transport: string): void {
    for (const each of Object.values(this.tally)) {
      if (each.metric.labels.length === 1 && each.metric.labels[0] === 'transport') each.add(0, transport);
    }
    for (const blame of BLAMES) this.tally.failures.add(0, transport, blame);
    for (const each of [this.latency, this.batch, this.attempts]) each.of(transport);
    for (const result of RESULTS) this.publish.of(transport, result);
  }

  private published({ transport, ids, scheduled = [] }: OutboxEventMap['published']): void {
    this.tally.published.add(ids.length, transport);
    this.batch.observe(ids.length, transport);
    const now = this.clock.wall();
    const left = new Set(scheduled);
    const waited: number[] = [];
    for (const id of ids) {
      const made = left.has(id) ? undefined : timeOfUuidV7(id);
      // The clock of who enqueued may be ahead.
      if (made !== undefined) waited.push(Math.max(0, now - made) / 1_000);
    }
    this.latency.observeEach(waited, transport);
  }
}
