import { OutboxMessage } from '../../outbox-message.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { stopwatch, systemClock } from '../../time/clock.js';
import {
  OutboxTransport,
  type PublishContext,
  type PublishResult,
  type TransportHealth,
  type TransportLimits,
} from '../transport.js';
import { EventMaker, forEach, type EventSettings } from './event-maker.js';
import type { Packet } from './kind.js';

interface Serving {
  readonly kind: 'kafka' | 'rmq';
  readonly limits: TransportLimits;
  readonly settings: EventSettings;
  /**
   * Keeps for the transport below what the client's `emit` would send.
   * @returns as which message it is handed over
   */
  readonly make: (message: OutboxMessage, emitted: Packet) => Promise<OutboxMessage>;
}

export function served(definition: TransportDefinition, serving: Serving): TransportDefinition {
  const create = async (): Promise<OutboxTransport> =>
    new ServedTransport((await definition.create()) as OutboxTransport, serving);
  return { ...definition, kind: 'client-proxy', limits: serving.limits, create };
}

/** Publishes through our own transport of a broker what `emit()` of a Nest client would send. */
class ServedTransport extends OutboxTransport {
  readonly receipt = 'broker';
  override readonly limits: TransportLimits;
  private readonly maker: EventMaker;

  constructor(
    private readonly below: OutboxTransport,
    private readonly serving: Serving,
  ) {
    super();
    this.limits = serving.limits;
    this.maker = new EventMaker(serving.settings, serving.kind);
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    const elapsed = stopwatch(systemClock);
    const left = (): number => (context.signal.aborted ? 0 : context.timeout - elapsed());
    const made = new Map<number, OutboxMessage>();
    await forEach(batch.length, this.serving.settings.concurrency, async (index) => {
      if (left() <= 0) return;
      const message = batch[index]!;
      const one = await this.maker.make(message, left, (emitted) => this.serving.make(message, emitted));
      if (one instanceof OutboxMessage) made.set(index, one);
      else context.report(index, one);
    });
    if (made.size === 0 || left() <= 0) return;
    const indexes = [...made.keys()].sort((a, b) => a - b);
    const messages = indexes.map((index) => made.get(index)!);
    const report = (n: number, result: PublishResult): void => context.report(indexes[n]!, this.judged(result));
    const results = await this.below.publish(messages, { ...context, timeout: left(), report });
    results?.forEach((result, n) => report(n, result));
  }

  /** What an application's function made may be another thing after its next deployment. */
  private judged(result: PublishResult): PublishResult {
    const { pattern, record } = this.serving.settings;
    if (result.ok || (pattern === undefined && typeof record !== 'function')) return result;
    const { final: _, ...rest } = result;
    return rest;
  }

  override destinationOf(message: OutboxMessage): string | readonly string[] {
    return this.below.destinationOf?.(message) ?? [];
  }
  override async connect(...how: Parameters<NonNullable<OutboxTransport['connect']>>): Promise<void> {
    await this.below.connect?.(...how);
  }
  override async reset(): Promise<void> {
    await this.below.reset?.();
  }
  override async close(): Promise<void> {
    await this.below.close?.();
  }
  override health(): TransportHealth {
    return this.below.health!();
  }
}
