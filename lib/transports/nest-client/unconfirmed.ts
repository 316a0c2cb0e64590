import { stopwatch, systemClock, within } from '../../time/clock.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import {
  OutboxTransport,
  PUBLISHED,
  type PublishContext,
  type PublishResult,
  type TransportHealth,
  type TransportLimits,
} from '../transport.js';
import { abortable } from '../abortable.js';
import { wrapped } from './blame.js';
import { EventMaker, forEach, type EventSettings } from './event-maker.js';
import type { ClientKind, Emitted, NestClient, Packet } from './kind.js';

export type UnconfirmedKind = Exclude<ClientKind, 'kafka' | 'rmq'>;

/** One sentence for health and the start line. */
export const WORTH: Readonly<Record<UnconfirmedKind, string>> = {
  redis: 'the server passed it to whoever listened at that moment; nothing is stored',
  nats: 'the client took it; nothing is stored',
  mqtt: 'the client sent it, or, where the message asks for another QoS than 0, the server took it; whether anybody subscribed is unknown',
  tcp: 'the bytes were handed to the kernel',
  grpc: 'gRPC has no events',
  custom: 'unknown: the client is not one of those that Nest ships',
};

/** How long a close may take. */
const CLOSE_DEADLINE = 2_000;

/**
 * Publishes through a Nest client whose `emit` proves nothing, with its `connect()`, `emit()` and `close()` alone: what was
 * handed to it when its time was over may still be sent.
 */
export class UnconfirmedTransport extends OutboxTransport {
  readonly receipt = 'none';
  private readonly maker: EventMaker;
  private opened: Promise<void> | undefined;
  private up = false;
  private closed = false;
  private closing: Promise<unknown> | undefined;

  constructor(
    private readonly client: NestClient,
    private readonly kind: UnconfirmedKind,
    private readonly settings: EventSettings,
    override readonly limits: TransportLimits,
  ) {
    super();
    this.maker = new EventMaker(settings, kind);
  }

  override async connect(signal: AbortSignal): Promise<void> {
    if (this.closed) throw new OutboxError('TRANSPORT_UNAVAILABLE', 'The transport is closed.');
    const opened = (this.opened ??= this.open());
    try {
      await abortable(opened, signal);
      this.up = this.opened === opened;
    } catch (error) {
      await this.reset();
      throw wrapped(error);
    }
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    const elapsed = stopwatch(systemClock);
    await this.connect(context.signal);
    const left = (): number => (context.signal.aborted ? 0 : context.timeout - elapsed());
    const emit = async ({ pattern, data }: Packet): Promise<PublishResult> => {
      if (left() <= 0) throw timedOut(context);
      await ended(this.client.emit(pattern, data));
      return PUBLISHED;
    };
    const work = forEach(batch.length, this.settings.concurrency, async (index) => {
      if (left() > 0) context.report(index, await this.maker.make(batch[index]!, left, emit));
    });
    if (await abortable(within(systemClock, left(), work), context.signal).catch(() => false)) return;
    await this.reset();
    throw timedOut(context);
  }

  /** Nest's clients go on by themselves: what they hold then may go out later. */
  override async reset(): Promise<void> {
    this.opened = undefined;
    this.up = false;
    const close = async (): Promise<unknown> => this.client.close();
    this.closing ??= within(systemClock, CLOSE_DEADLINE, close())
      .catch(() => undefined)
      .finally(() => (this.closing = undefined));
    await this.closing;
  }

  override async close(): Promise<void> {
    this.closed = true;
    await this.reset();
  }

  override health(): TransportHealth {
    const state = this.up ? 'connected' : this.opened === undefined ? 'closed' : 'connecting';
    return { up: this.up, state, detail: `Nest ${this.kind} client: ok means that ${WORTH[this.kind]}.` };
  }

  private async open(): Promise<void> {
    await this.closing;
    await this.client.connect();
  }
}

/** Of what `emit` gives, which is on its way before anybody listens. */
function ended(observable: Emitted | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (typeof observable?.subscribe === 'function')
      return void observable.subscribe({ next: () => undefined, error: reject, complete: resolve });
    Promise.resolve(observable).catch(() => undefined); // a promise in its place may reject
    const text = 'emit() of this client gives no Observable, so nothing tells of its end.';
    reject(new OutboxError('TRANSPORT_UNAVAILABLE', text));
  });
}

function timedOut({ timeout }: PublishContext): OutboxError {
  return new OutboxError('PUBLISH_TIMEOUT', `No answer within ${Math.round(timeout)} ms; the client was closed.`);
}
