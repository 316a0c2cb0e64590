import { inCleanScope } from '../../time/async-scope.js';
import { stopwatch, systemClock, within } from '../../time/clock.js';
import { isThenable } from '../../message/is-thenable.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import { OutboxTransport, type PublishContext, type PublishResult, type TransportHealth } from '../transport.js';
import { KafkaLink } from './kafka.js';
import { type ClientKind, kindOfClient, limitsOf, type NestClient, receiptOf, WORTH } from './kind.js';
import { failed } from '../failure.js';
import { ApplicationFunctionError, blameForUnsent } from './blame.js';
import { ClientLink } from './link.js';
import { releaseClient, takeClient } from './client-registry.js';
import { kafkaRecord, parsedPayload, placed, type RecordOption, rmqRecord } from './record.js';
import { destinationsOf } from './places.js';
import { RmqLink } from './rmq.js';
import { MqttLink, NatsLink, RedisLink, TcpLink } from './unconfirmed.js';
import { noTopic } from '../kafkajs/limits.js';

export interface ClientProxySettings {
  readonly pattern: (message: OutboxMessage) => unknown;
  readonly record: RecordOption;
  readonly concurrency: number;
  /** Whether `pattern` or `record` is the application's function. */
  readonly readsOptions: boolean;
}

/** @param time milliseconds for what it promises */
type Make = (message: OutboxMessage, time: number) => unknown;

const RECORDS = { kafka: kafkaRecord, rmq: rmqRecord, plain: parsedPayload };

/** Publishes through a client of `@nestjs/microservices`, one `emit` per message, `concurrency` of them at once. */
export class ClientProxyTransport extends OutboxTransport {
  readonly receipt: 'broker' | 'none';
  override readonly limits;
  override destinationOf?: (message: OutboxMessage) => string | readonly string[];
  /** @internal */ readonly kind: ClientKind;
  /** @internal */ readonly pattern: Make;
  /** @internal */ readonly record: Make;
  /** @internal */ link: ClientLink | undefined;
  /** @internal */ closed = false;
  /** @internal */ opening: Promise<ClientLink> | undefined;

  constructor(
    /** @internal */ readonly client: NestClient,
    /** @internal */ readonly settings: ClientProxySettings,
  ) {
    super();
    this.kind = kindOfClient(client);
    this.receipt = receiptOf(client) === 'broker' ? 'broker' : 'none';
    this.limits = limitsOf(this.kind, settings.readsOptions);
    this.pattern = ofApplication('pattern', settings.pattern);
    const record = recordOf(settings.record, this.kind);
    this.record = this.kind === 'rmq' && !settings.readsOptions ? placed(record) : record;
    const names = destinationsOf(client, this.kind, settings.readsOptions);
    if (names !== undefined) this.destinationOf = names;
    takeClient(client);
  }

  override async connect(signal: AbortSignal): Promise<void> {
    await this.linkUp(signal);
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    const since = systemClock.monotonic();
    const elapsed = stopwatch(systemClock);
    const link = await this.linkUp(context.signal);
    let next = 0;
    const onAbort = (): void => void link.expire(timedOut(context), since);
    // In a process that stood still the answers come before the timer that aborts.
    const isTooLate = (): boolean => {
      if (elapsed() < context.timeout) return false;
      onAbort();
      return true;
    };
    const worker = async (): Promise<void> => {
      while (next < batch.length && !link.dead && !context.signal.aborted) {
        if (isTooLate()) return;
        const index = next++;
        const left = (): number => context.timeout - elapsed();
        const result = await this.send(link, batch[index] as OutboxMessage, left, isTooLate);
        if (result !== undefined) context.report(index, result);
      }
    };
    context.signal.addEventListener('abort', onAbort, { once: true });
    link.underWay.add(isTooLate);
    try {
      await Promise.all(Array.from({ length: Math.min(this.settings.concurrency, batch.length) }, worker));
    } finally {
      link.underWay.delete(isTooLate);
      context.signal.removeEventListener('abort', onAbort);
    }
    // What no worker reached goes back as the failure of the connection.
    if (link.dead) await link.kill(undefined);
  }

  /** @internal @returns `undefined`: meanwhile the connection, or the time, was over */
  async send(
    link: ClientLink,
    message: OutboxMessage,
    left: () => number,
    isTooLate: () => boolean,
  ): Promise<PublishResult | undefined> {
    let pattern: unknown;
    let record: unknown;
    try {
      pattern = this.pattern(message, left() / 2);
      const waits = isThenable(pattern);
      if (waits) pattern = await pattern;
      record = this.record(message, left() / 2);
      const waited = waits || isThenable(record);
      if (waited) record = await record;
      if (waited && (link.dead || isTooLate())) return undefined;
    } catch (error) {
      return blameForUnsent(error);
    }
    // An application's function may find one after its next deployment.
    if (this.kind === 'kafka' && pattern === '')
      return failed('message', noTopic(), { final: !this.settings.readsOptions });
    return link.emitWithin(left, message, pattern, record);
  }

  /** @internal the living connection, or a new one; concurrent batches share the attempt */
  async linkUp(signal: AbortSignal): Promise<ClientLink> {
    signal.throwIfAborted();
    if (this.closed) throw new OutboxError('TRANSPORT_UNAVAILABLE', 'The transport is closed.');
    if (this.link !== undefined && !this.link.dead) return this.link;
    this.opening ??= this.openLink(signal).finally(() => (this.opening = undefined));
    return this.opening;
  }

  /** @internal */
  async openLink(signal: AbortSignal): Promise<ClientLink> {
    await this.link?.killing;
    const link = new LINKS[this.kind](this.client, this.link);
    link.onState = (state, reason) => this.onState?.(state, reason);
    this.link = link;
    await link.open(signal);
    return link;
  }

  override async reset(): Promise<void> {
    await this.link?.kill(new OutboxError('TRANSPORT_UNAVAILABLE', 'The connection was reset.'));
  }
  /** Closes the client too: nobody else may know of it. Another transport may take it then. */
  override async close(): Promise<void> {
    const isOwner = !this.closed;
    this.closed = true;
    try {
      await this.link?.close();
    } finally {
      if (isOwner) releaseClient(this.client);
    }
  }

  override health(): TransportHealth {
    const waitsFor = this.link?.waitsFor; // asked once: it may be over at the next look
    if (waitsFor !== undefined) return { up: true, state: 'blocked', detail: `${waitsFor}.` };
    const state = this.link?.up ? 'connected' : this.opening === undefined ? 'closed' : 'connecting';
    return { up: state === 'connected', state, detail: `Nest ${this.kind} client: ok means that ${WORTH[this.kind]}.` };
  }
}

const LINKS: Readonly<Record<ClientKind, new (client: NestClient, before?: ClientLink) => ClientLink>> = {
  kafka: KafkaLink,
  rmq: RmqLink,
  redis: RedisLink,
  nats: NatsLink,
  mqtt: MqttLink,
  tcp: TcpLink,
  grpc: ClientLink,
  custom: ClientLink,
};

function recordOf(option: RecordOption, kind: ClientKind): Make {
  if (typeof option === 'function') return ofApplication('record', option);
  if (option !== 'auto') return RECORDS[option];
  return kind === 'kafka' || kind === 'rmq' ? RECORDS[kind] : parsedPayload;
}

function ofApplication(option: 'pattern' | 'record', call: (message: OutboxMessage) => unknown): Make {
  return (message, time) => {
    try {
      const given = inCleanScope(() => call(message));
      return isThenable(given) ? promised(option, given, time) : given;
    } catch (cause) {
      throw new ApplicationFunctionError(option, cause);
    }
  };
}

/** One that never ends fails its message, before the publish fails for all that are out. */
async function promised(option: 'pattern' | 'record', given: PromiseLike<unknown>, time: number): Promise<unknown> {
  let value: unknown;
  const kept = Promise.resolve(given).then((one) => (value = one));
  const inTime = await within(systemClock, time, kept).catch((cause: unknown) => {
    throw new ApplicationFunctionError(option, cause);
  });
  if (inTime) return value;
  const text = `It did not end within ${Math.round(time)} ms.`;
  throw new ApplicationFunctionError(option, new OutboxError('TIMEOUT', text));
}

function timedOut(context: PublishContext): OutboxError {
  return new OutboxError(
    'PUBLISH_TIMEOUT',
    `No answer within ${Math.round(context.timeout)} ms; the connection was closed.`,
  );
}
