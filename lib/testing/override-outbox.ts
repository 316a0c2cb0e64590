import type { Clock } from '../time/clock.js';
import type { OutboxOverrides } from '../nest/overrides.js';
import type { NewMessage } from '../outbox-message.js';
import type { OutboxOptions, TransportOption } from '../outbox.options.js';
import { DEFAULT_NAME, overridesToken } from '../outbox.tokens.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { toDefinitions } from '../options/transport-option.js';
import { onlyOwn, OwnMessages } from './own-messages.js';
import { RecordingTransport } from './recording-transport.js';

export interface OverrideOutboxOptions {
  /** Names the outbox. Default: the unnamed one. */
  name?: string;
  /** Records at enqueue, not at commit: for suites that wrap each test in a transaction and roll it back. Default: false. */
  capture?: boolean;
  /** Keeps these transports as they are, by name: for tests of `@OnOutboxEvent` handlers. */
  keep?: readonly string[];
  /** Replaces options of the application, such as `{ database: { setup: 'create' } }`. */
  options?: Partial<OutboxOptions>;
  /** Replaces the clock of polls and timeouts, such as by a `FakeClock`. */
  clock?: Clock;
}
/** The part of the TestingModuleBuilder of @nestjs/testing that is used here. */
export interface OverridableBuilder {
  overrideProvider(token: unknown): { useValue(value: unknown): unknown };
}

/**
 * Makes an application's outbox testable: nothing is published until the test says so, and then to recording transports. What
 * others left in the tables stays there.
 *
 *     const app = await overrideOutbox(Test.createTestingModule({ imports: [AppModule] })).compile();
 *     const outbox = outboxTesting(app);
 *
 * @returns the builder
 */
export function overrideOutbox<B extends OverridableBuilder>(builder: B, options: OverrideOutboxOptions = {}): B {
  builder.overrideProvider(overridesToken(options.name ?? DEFAULT_NAME)).useValue(new TestOverrides(options));
  return builder;
}

/** What was enqueued, in the order of writing, until its transaction or savepoint is rolled back. */
interface Enqueued {
  readonly message: NewMessage;
  committed: boolean;
}

export class TestOverrides implements OutboxOverrides {
  readonly transports = new Map<string, RecordingTransport>();
  readonly clock?: Clock;
  enqueued: Enqueued[] = [];
  deduplicated: string[] = [];
  readonly own = new OwnMessages();

  constructor(readonly settings: OverrideOutboxOptions) {
    if (settings.clock !== undefined) this.clock = settings.clock;
  }

  /** Invalid options stay as they are: the module reports them. */
  options(given: OutboxOptions): OutboxOptions {
    const all = { ...given, ...this.settings.options };
    const transports: Record<string, TransportOption> = { ...all.transports };
    for (const [name, definition] of toDefinitions(all.transports, [])) {
      if (this.settings.keep?.includes(name)) continue;
      const recording = new RecordingTransport(definition.limits);
      this.transports.set(name, recording);
      // The kind stays, because handlers are checked against it.
      transports[name] = { ...definition, receipt: 'broker', inject: [], create: () => recording };
    }
    return { wakeUp: 'poll', ...all, transports, relay: 'manual' };
  }

  relayStore(store: OutboxStore): OutboxStore {
    return onlyOwn(store, this.own);
  }

  onEnqueued(messages: readonly NewMessage[]): void {
    this.own.add(messages.map(({ id }) => id));
    for (const message of messages) this.enqueued.push({ message, committed: false });
  }
  onCommitted(ids: readonly string[]): void {
    const set = new Set(ids);
    for (const one of this.enqueued) if (set.has(one.message.id)) one.committed = true;
  }
  onDeduplicated(ids: readonly string[]): void {
    this.deduplicated.push(...ids);
  }
  onRolledBack(ids: readonly string[]): void {
    const set = new Set(ids);
    this.enqueued = this.enqueued.filter(({ message, committed }) => committed || !set.has(message.id));
  }
}
