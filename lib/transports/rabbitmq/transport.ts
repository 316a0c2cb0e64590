import { systemClock } from '../../time/clock.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Finding } from '../diagnosis.js';
import {
  OutboxTransport,
  type BrokerQuestion,
  type ExpectedMessages,
  type MissingDestination,
  type PublishContext,
  type PublishFailure,
  type TransportHealth,
  type TransportLimits,
  type TransportStateListener,
} from '../transport.js';
import { Aside } from './aside.js';
import { blameFor } from '../amqp/blame.js';
import { PublishCall } from './call.js';
import type { AmqpChannel, RabbitMqEncoder } from './client.js';
import { closeReason, replyCodeOf } from '../amqp/errors.js';
import { ChannelWriter } from './channel-writer.js';
import { RabbitMqLink, type ConnectionSource } from './link.js';
import { Recovery } from '../amqp/recovery.js';
import { MAX_HEADER_TABLE } from '../amqp/limits.js';
import { exchangeName, nameOf } from '../amqp/names.js';
import { createEncoder } from './message.js';
import { diagnose } from './diagnose.js';
import { lookFor, missingOf } from './missing.js';
import type { RabbitMqSettings } from './options.js';
import { Silence } from './silence.js';
import { isThere, publishApart, Refusals } from './refusals.js';
import { Suspects } from './suspects.js';

/**
 * Publishes over one connection and, normally, one confirm channel. Messages that were unconfirmed when the broker closed
 * a channel are suspects: they are sent one by one over a second channel, where the culprit takes nobody down with it.
 */
export class RabbitMqTransport extends OutboxTransport {
  readonly receipt = 'broker';
  override readonly atomicRuns: boolean;
  readonly silence: Silence;
  private readonly encode: RabbitMqEncoder;
  private readonly aside: Aside | undefined;
  private readonly main: ChannelWriter;
  private readonly probe: ChannelWriter;
  private readonly link: RabbitMqLink;
  private readonly suspects = new Suspects();
  private readonly refusals = new Refusals();
  private readonly underWay = new Set<PublishCall>();
  private closed = false;
  private onState: TransportStateListener | undefined;

  constructor(
    readonly settings: RabbitMqSettings,
    override readonly limits: TransportLimits,
    source: ConnectionSource,
    /** Of the one for which this one only asks (see {@link Aside}). */
    asksFor?: Recovery,
  ) {
    super();
    this.silence = new Silence(asksFor ? undefined : (now) => this.giveUp(now));
    this.atomicRuns = settings.pipelineKeys;
    const events = {
      onOpen: (channel: AmqpChannel) => this.onOpen(channel),
      onLost: (error: unknown) => this.onLost(error),
      onWrite: () => this.expireLate(),
      onBlocked: (reason: string) => this.onState?.('blocked', reason),
      onUnblocked: () => this.onUnblocked(),
    };
    this.link = new RabbitMqLink(settings, source, events, new Recovery(asksFor));
    const { silence, refusals, suspects, link } = this;
    const maxTable = (): number => link.connection?.maxHeaderTable ?? MAX_HEADER_TABLE;
    this.encode = settings.encode ?? createEncoder(settings, maxTable);
    const asking = (): OutboxTransport => new RabbitMqTransport(settings, limits, source, link.recovery);
    this.aside = asksFor ? undefined : new Aside(asking, () => silence.patience);
    const { encode, aside } = this;
    const parts = { encode, silence, refusals, suspects, link, aside };
    const onClosed = (writer: ChannelWriter): void => void this.reopen(writer);
    const onBroken = (error: unknown): void => void (link.connection !== undefined && this.onLost(error));
    this.main = new ChannelWriter(parts, settings.maxUnconfirmed, onClosed, onBroken);
    this.probe = new ChannelWriter(parts, 1, onClosed, onBroken);
  }

  override async connect(signal: AbortSignal, onState?: TransportStateListener): Promise<void> {
    this.closed = false;
    this.onState = onState;
    await this.link.connect(signal);
  }

  async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    const apart = this.refusals.among(batch, (message) => this.destinationOf(message));
    await publishApart(batch, apart, context, (...part) => this.publishPart(...part));
  }

  /** @param isApart over the second channel */
  private async publishPart(batch: readonly OutboxMessage[], context: PublishContext, isApart: boolean): Promise<void> {
    if (batch.length === 0) return;
    const { pipelineKeys, confirmTimeout } = this.settings;
    const timeout = Math.min(context.timeout, confirmTimeout);
    const expire = (late: PublishCall, reason: unknown): void => this.expire(late, reason);
    const call = new PublishCall(batch, context, { timeout, pipelined: pipelineKeys, expire });
    if (this.closed) call.fail(unavailable(new Error('The transport is closed.')));
    if (call.settled) return;
    this.silence.within(timeout);
    this.underWay.add(call);
    void call.done.then(() => this.underWay.delete(call));
    if (!isApart && !this.suspects.includesAny(batch)) this.main.add(call);
    else if (this.link.hasOneChannel) this.addCarefully(call);
    else this.addToProbe(call);
    if (this.link.connection === undefined)
      this.link.ensureConnected().catch((error: unknown) => this.failQueued(unavailable(error)));
    await call.done;
  }

  override destinationOf(message: OutboxMessage): readonly string[] {
    try {
      const { exchange, routingKey } = this.encode(message);
      const name = nameOf(exchange, routingKey);
      return exchange === '' ? [name] : [exchangeName(exchange), name];
    } catch {
      return []; // of a function of the application that threw
    }
  }

  override async findMissing(
    expected: readonly ExpectedMessages[],
    signal: AbortSignal,
  ): Promise<MissingDestination[]> {
    if (this.settings.checkDestinations === false) return [];
    const answers = await lookFor(this.link, this.settings, expected, signal);
    // What was refused a moment ago is there now: its messages are freed by that, and tried at once.
    this.refusals.areGone(answers.flatMap(({ destination, error }) => (error === undefined ? destination : [])));
    return answers.flatMap(missingOf);
  }

  override diagnose(question: BrokerQuestion, signal: AbortSignal): Promise<readonly Finding[]> {
    return diagnose(this.link, this.settings, question, signal);
  }

  override reset(): void {
    this.aside?.reset();
    this.drop(unavailable(new Error('The transport was reset.')));
  }

  override async close(): Promise<void> {
    this.closed = true;
    this.silence.stop();
    this.aside?.reset();
    const reason = new Error('The transport was closed.');
    // What is unconfirmed now gets its verdict now, so it must not arrive later.
    if (this.unconfirmed > 0) return this.drop(unavailable(reason));
    this.abandon(unavailable(reason));
    await this.link.close(reason);
  }

  override health(): TransportHealth {
    const { connection, lastError, isConnecting, server } = this.link;
    if (connection?.blocked !== undefined) {
      return { up: true, state: 'blocked', detail: `RabbitMQ asks to wait: ${connection.blocked}.` };
    }
    if (connection !== undefined) return { up: true, state: 'connected' };
    const state = isConnecting ? 'connecting' : 'closed';
    return lastError === undefined
      ? { up: false, state }
      : {
          up: false,
          state,
          detail: `The connection to RabbitMQ was lost or refused${server ? ` (server ${server})` : ''}.`,
        };
  }

  private get unconfirmed(): number {
    return this.main.window.size + this.probe.window.size;
  }

  private addCarefully(call: PublishCall): void {
    call.isCareful = true;
    this.acquit(call);
    this.main.add(call);
  }

  private goOnWithOne(): void {
    this.link.hasOneChannel = true;
    for (const call of this.probe.queue.splice(0)) this.addCarefully(call);
  }

  private addToProbe(call: PublishCall): void {
    this.probe.add(call);
    this.acquit(call);
    if (this.probe.channel === undefined) void this.reopen(this.probe);
  }

  /** Those that get through. */
  private acquit(call: PublishCall): void {
    void call.done.then((results) =>
      results.forEach((result, index) => {
        const message = call.batch[index]!;
        if (result.ok) this.suspects.delete(message.id);
        if (this.refusals.size > 0 && isThere(result)) this.refusals.areGone(this.destinationOf(message));
      }),
    );
  }

  private onOpen(channel: AmqpChannel): void {
    this.main.open(channel);
    if (this.probe.queue.length > 0) void this.reopen(this.probe);
    this.onState?.('up');
  }

  private async reopen(writer: ChannelWriter): Promise<void> {
    const { connection } = this.link;
    if (connection === undefined || writer.opening) return;
    writer.opening = true;
    try {
      const channel = await this.link.openChannel();
      if (this.link.connection === connection) writer.open(channel);
    } catch (error) {
      if (this.link.connection !== connection) return;
      if (writer === this.probe && closeReason(error).name === 'NO_CHANNELS_LEFT') this.goOnWithOne();
      else this.onLost(error);
    } finally {
      writer.opening = false;
      // Another connection may have come meanwhile and found this attempt in its way.
      if (this.link.connection !== connection && writer.channel === undefined && writer.queue.length > 0)
        void this.reopen(writer);
    }
  }

  private onLost(error: unknown): void {
    // A limit that the broker has for its users (530) ends the connection.
    if ((this.probe.opening || this.link.isAsserting) && (replyCodeOf(error) ?? 0) >= 500)
      this.link.hasOneChannel = true;
    this.drop(blameFor({ kind: 'connection-closed', error, alone: this.unconfirmed === 1 }));
    this.onState?.('down', error);
  }

  private onUnblocked(): void {
    this.silence.restart();
    this.onState?.('up');
    this.main.pump();
    this.probe.pump();
  }

  /** While the broker asks to wait, silence means nothing. */
  private giveUp(now: number, call?: PublishCall): void {
    if (this.link.isBlocked) return;
    this.main.giveUp(now, call);
    this.probe.giveUp(now, call);
  }

  /** Unless the broker has it all, the connection is destroyed before anybody hears that the publish failed. */
  private expire(call: PublishCall, reason: unknown): void {
    this.main.remove(call);
    this.probe.remove(call);
    if (call.inFlight > 0) {
      this.giveUp(systemClock.monotonic(), call);
      if (call.inFlight > 0 && !this.link.isBlocked) this.silence.doubt();
    }
    const failure = this.lateness(call, reason);
    if (call.inFlight > 0) this.drop(failure);
    call.fail(failure);
  }

  /** amqplib is about to write what it may have held while the process stood still. */
  private expireLate(): void {
    for (const { deadline } of this.underWay) void deadline.passed; // which calls `expire`
  }

  private lateness(call: PublishCall, reason: unknown): PublishFailure {
    const blocked = this.link.connection?.blocked;
    if (blocked !== undefined) return blameFor({ kind: 'blocked', reason: blocked });
    if (call.inFlight > 0) return blameFor({ kind: 'not-confirmed', error: reason });
    return unavailable(reason ?? new Error('Not sent before the publish timeout.'));
  }

  /** Destroys the connection, then gives everything that waited for it a result. */
  private drop(failure: PublishFailure): void {
    this.link.drop(failure.error, this.unconfirmed);
    this.abandon(failure);
  }

  private abandon(failure: PublishFailure): void {
    for (const writer of [this.main, this.probe]) writer.abandon(() => failure);
    this.failQueued(failure.blame === 'transport' ? failure : unavailable(failure.error));
  }

  private failQueued(failure: PublishFailure): void {
    for (const writer of [this.main, this.probe]) writer.failQueued(failure);
  }
}

function unavailable(error: unknown): PublishFailure {
  return blameFor({ kind: 'unavailable', error });
}
