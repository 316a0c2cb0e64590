import type { OutboxHealth, OutboxEventMap, OutboxEventName, OutboxStats } from '../../../lib/index.js';
import { EventStream } from '../../../lib/observe/event-stream.js';
import type { SnapshotAge } from '../../../lib/prometheus/gauges.js';
import type { TransportWrapper } from '../../../lib/options/transport-wrapper.js';
import { FakeClock } from '../../../lib/testing/index.js';
import { contractMessage } from '../../support/publish.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import { inProcess } from '../../../lib/transports/in-process/in-process.js';

const COUNTS = {
  configured: true,
  ready: 5,
  readyIsExact: true,
  scheduled: 1,
  waiting: 2,
  blocked: 3,
  dead: 4,
  blockedKeys: 6,
  oldestReadyAge: 1500,
  leasedBuckets: 32,
  instances: 2,
  failingOften: 1,
  mostAttempts: 12,
};

const TABLES = [
  { table: 'ready', bytes: 8_192, liveRows: -1, deadRows: 7 },
  { table: 'parked', bytes: 16_384, liveRows: 12, deadRows: null },
];

/** What `OutboxPrometheus` asks of an outbox, and how often it asks. */
export class FakeOutbox {
  readonly clock = new FakeClock();
  readonly events = new EventStream(this.clock);
  sized = 0;
  readonly runtime = {
    wrappers: [] as TransportWrapper[],
    options: { buckets: 32, ordering: 'key', coordination: 'buckets' },
    store: {
      diagnose: {
        ask: (name: 'tables' | 'oldestSnapshot') =>
          Promise.resolve(name === 'tables' ? (this.sized++, TABLES) : this.snapshot),
      },
      setup: { check: () => this.schemaIs() },
    },
  };
  /** What the comparison of a start says. */
  schemaIs: () => Promise<void> = () => Promise.resolve();
  snapshot: SnapshotAge = { age: 90_000, transactions: 12 };
  asked = 0;
  statsAre: () => Promise<OutboxStats> = () => Promise.resolve(this.counts);
  counts = {
    transports: { events: COUNTS },
    total: COUNTS,
    away: [{ transport: 'events', destination: 'queue "q"', since: new Date(0), waiting: 1, lastError: 'gone' }],
  } as OutboxStats;
  healthIs: OutboxHealth = {
    status: 'degraded',
    reasons: [
      { code: 'dead_letters', text: "4 dead messages for 'events' wait for requeue or discard.", transport: 'events' },
      { code: 'relay_stopped', text: 'The relay is not running.' },
    ],
    relay: { mode: true, running: true, storeDownFor: 2_500, heartbeatLate: 40, heldSnapshot: null },
    transports: {
      events: {
        kind: 'rabbitmq',
        receipt: 'broker',
        circuit: 'probing',
        lastError: null,
        paused: { since: new Date(1_893_455_940_000), by: 'ana', reason: 'audit' },
        stats: null,
      },
    },
  };

  stats(): Promise<OutboxStats> {
    this.asked++;
    return this.statsAre();
  }
  health(): Promise<OutboxHealth> {
    return Promise.resolve(this.healthIs);
  }
  /** As a relay does that started just now; the handler takes this many milliseconds, and then throws the error, if any. */
  async publish(takes = 0, error?: Error): Promise<void> {
    const handlers = new InProcessHandlers();
    const call = async (): Promise<void> => {
      await this.clock.advance(takes);
      if (error !== undefined) throw error;
    };
    handlers.add({ id: 'Mailer.mail', type: 'mailed', version: undefined, call });
    const definition = this.runtime.wrappers.reduce((inner, wrap) => wrap('events', inner), inProcess());
    const transport = await definition.create(handlers);
    const context = { signal: new AbortController().signal, timeout: 1_000, report: () => undefined };
    await transport.publish([contractMessage({ topic: 'mails', type: 'mailed' })], context);
  }
  async tell<K extends OutboxEventName>(name: K, event: OutboxEventMap[K]): Promise<void> {
    this.events.emit(name, event);
    await this.clock.advance(0);
  }
}
