/** What a test gives to a relay, and what it reads of it, without any database: here is nothing that loads a database client. */
import { EventEmitter, once } from 'node:events';
import {
  type OutboxMessage,
  type OutboxEventMap,
  type OutboxEventName,
  type PublishContext,
  type PublishResult,
  OutboxTransport,
  PUBLISHED,
} from '../../lib/index.js';
import { bucketOf } from '../../lib/message/bucket-of.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import type { NewMessage } from '../../lib/outbox-message.js';
import type { OutboxHooks } from '../../lib/observe/events.js';

/** The connection broke over it, for all that anybody knows. */
export const broken = (): PublishResult => ({
  ok: false,
  blame: 'transport',
  suspect: 'message',
  error: new Error('connection refused'),
});

/** A transport whose every publish the test decides. */
export class ScriptedTransport extends OutboxTransport {
  readonly receipt: OutboxTransport['receipt'] = 'broker';
  override readonly atomicRuns: boolean;
  readonly published: OutboxMessage[] = [];
  /** Every attempt in the order in which it was made. */
  readonly attempted: OutboxMessage[] = [];
  resets = 0;
  /** Decides one message; default: published. */
  behave: (message: OutboxMessage) => PublishResult | Promise<PublishResult> = () => PUBLISHED;
  readonly signals = new EventEmitter();

  constructor({ atomicRuns = false } = {}) {
    super();
    this.atomicRuns = atomicRuns;
    this.signals.setMaxListeners(0);
  }

  async publish(batch: readonly OutboxMessage[], { report }: PublishContext): Promise<void> {
    await Promise.all(
      batch.map(async (message, index) => {
        this.attempted.push(message);
        this.signals.emit('attempt', message);
        const result = await this.behave(message);
        if (result.ok) this.published.push(message);
        report(index, result);
        this.signals.emit('result', message);
      }),
    );
  }

  override reset(): void {
    this.resets += 1;
  }

  /** Resolves once `condition` holds, looking after every result. */
  async until(condition: () => boolean, ms = 60_000): Promise<void> {
    const signal = AbortSignal.timeout(ms);
    while (!condition()) await once(this.signals, 'result', { signal });
  }

  get texts(): string[] {
    return this.published.map(({ payload }) => String(payload));
  }
}

/** Collects events and lets a test wait for one. */
export class RecordedHooks implements OutboxHooks {
  readonly events: { name: OutboxEventName; event: unknown }[] = [];
  readonly signals = new EventEmitter();

  emit<K extends OutboxEventName>(name: K, event: OutboxEventMap[K]): void {
    this.events.push({ name, event });
    this.signals.emit('event');
  }
  has(): boolean {
    return true;
  }
  of<K extends OutboxEventName>(name: K): OutboxEventMap[K][] {
    return this.events.filter((each) => each.name === name).map(({ event }) => event as OutboxEventMap[K]);
  }
  async until<K extends OutboxEventName>(name: K, count = 1, ms = 60_000): Promise<OutboxEventMap[K]> {
    const signal = AbortSignal.timeout(ms);
    while (this.of(name).length < count) await once(this.signals, 'event', { signal });
    return this.of(name)[count - 1] as OutboxEventMap[K];
  }
}

export function newMessage(message: Partial<NewMessage>, buckets = 32): NewMessage {
  const id = message.id ?? uuidV7();
  const key = message.key === undefined ? null : message.key;
  return {
    id,
    transport: 0,
    bucket: message.bucket ?? bucketOf(key ?? id, buckets),
    topic: 'orders',
    key,
    type: 'order.placed',
    version: 1,
    contentType: 'application/json',
    headers: null,
    options: null,
    payload: Buffer.from('{}'),
    delay: null,
    deliverAt: null,
    dedupKey: null,
    ...message,
  };
}
