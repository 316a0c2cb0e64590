import { assertTopology } from './topology.js';
import type { AmqpChannel, AmqpConnection } from './client.js';
import { closeReason } from '../amqp/errors.js';
import { OutboxError } from '../../outbox.errors.js';
import { abortable } from '../abortable.js';
import { RabbitMqConnection, type ConnectionEvents } from './connection.js';
import type { RabbitMqSettings } from './options.js';
import { Recovery } from '../amqp/recovery.js';

/**
 * Opens a connection: to the configured servers, or what the application gave (`own: false`).
 * @param asked told of the server that is asked, for people, or that it has no name
 */
export type ConnectionSource = (
  signal: AbortSignal,
  asked?: (server?: string) => void,
) => Promise<{ model: AmqpConnection; own: boolean }>;

export interface LinkEvents extends ConnectionEvents {
  /** Connected, topology asserted, first channel open. */
  onOpen(channel: AmqpChannel): void;
}

const CLOSE_TIMEOUT = 3_000;

/** At most one connection, or one attempt to get it. When to try again is the relay's circuit's business. */
export class RabbitMqLink {
  connection: RabbitMqConnection | undefined;
  /** Why there is no connection. */
  lastError: unknown;
  /** The server that was asked last, for people. */
  server: string | undefined;
  /** Why the topology could not be asserted again on a connection that lives. */
  refused: unknown;
  /** No second channel can be had. */
  hasOneChannel = false;
  isAsserting = false;
  private connecting: Promise<void> | undefined;
  private attempt = new AbortController();

  constructor(
    readonly settings: RabbitMqSettings,
    readonly source: ConnectionSource,
    readonly events: LinkEvents,
    readonly recovery = new Recovery(),
  ) {}

  get isConnecting(): boolean {
    return this.connecting !== undefined;
  }

  async connect(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const connected = this.ensureConnected();
    const { attempt } = this;
    try {
      await abortable(connected, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      this.giveUp(attempt, signal.reason);
      throw this.silent(error);
    }
  }

  /** An attempt that was given up: which server had not answered. */
  private silent(cause: unknown): unknown {
    if (this.server === undefined) return cause;
    return new OutboxError('TRANSPORT_UNAVAILABLE', `RabbitMQ did not answer in time (server ${this.server}).`, {
      cause,
    });
  }

  ensureConnected(): Promise<void> {
    if (this.connection !== undefined) return Promise.resolve();
    if (this.connecting === undefined) {
      this.attempt = new AbortController();
      const connecting = this.open(this.attempt.signal).finally(() => {
        if (this.connecting === connecting) this.connecting = undefined;
      });
      this.connecting = connecting;
    }
    return this.connecting;
  }

  /** A channel that does not open soon means that the connection is dead. */
  openChannel(): Promise<AmqpChannel> {
    if (this.connection === undefined) return Promise.reject(new Error('not connected'));
    return this.bounded(this.connection.openConfirmChannel(), this.attempt.signal);
  }

  /** While it is true nothing is written: the broker asked to wait. */
  get isBlocked(): boolean {
    return this.connection?.blocked !== undefined;
  }

  /**
   * Makes anew what of the topology was deleted: there is no such exchange, or no queue took a message. One at a time, and not
   * where a login may have one channel: the next connection asserts it.
   * @returns why it could not be the last time
   */
  assertAgain(): unknown {
    const { connection, settings, hasOneChannel } = this;
    if (settings.topology === undefined || connection === undefined || this.isAsserting || hasOneChannel)
      return this.refused;
    this.isAsserting = true;
    void this.assertOver(connection, this.attempt.signal)
      .then(
        () => (this.refused = undefined),
        (error: unknown) => (this.refused = error),
      )
      .finally(() => (this.isAsserting = false));
    return this.refused;
  }

  /** At once. The application's own connection survives when nothing of ours is on it. */
  drop(reason: unknown, unconfirmed: number): void {
    const { connection } = this;
    this.lastError = reason;
    this.connection = undefined;
    if (connection?.own === true || unconfirmed > 0) connection?.destroy();
    else void connection?.close(CLOSE_TIMEOUT);
    this.giveUp(this.attempt, reason);
  }

  async close(reason: unknown): Promise<void> {
    const { connection, attempt } = this;
    this.lastError = undefined;
    this.connection = undefined;
    await connection?.close(CLOSE_TIMEOUT);
    this.giveUp(attempt, reason);
  }

  /** Ends the socket too. The next attempt is a new one, even before this one noticed. */
  private giveUp(attempt: AbortController, reason: unknown): void {
    if (attempt === this.attempt) this.connecting = undefined;
    attempt.abort(reason);
  }

  private async open(signal: AbortSignal): Promise<void> {
    let opened: RabbitMqConnection | undefined;
    try {
      const { model, own } = await abortable(
        this.source(signal, (server) => (this.server = server)),
        signal,
        (late) => {
          if (late.own) new RabbitMqConnection(late.model, true).destroy();
        },
      );
      const connection = new RabbitMqConnection(model, own, {
        ...this.events,
        onLost: (error) => this.onLost(connection, error),
      });
      opened = connection;
      await this.assertOver(opened, signal);
      const channel = await this.bounded(opened.openConfirmChannel(), signal);
      signal.throwIfAborted();
      if (opened.ended) throw opened.lost;
      this.connection = opened;
      this.lastError = this.refused = undefined;
      this.recovery.connected();
      this.events.onOpen(channel);
    } catch (error) {
      this.lastError = error;
      const { channel, connection } = closeReason(error);
      this.recovery.lost(opened?.lost === undefined ? channel : connection);
      if (opened?.own === true) opened.destroy();
      else void opened?.close(CLOSE_TIMEOUT);
      throw error;
    }
  }

  private async assertOver(connection: RabbitMqConnection, signal: AbortSignal): Promise<void> {
    const { topology } = this.settings;
    if (topology !== undefined) await this.bounded(connection.answer(assertTopology(connection, topology)), signal);
  }

  /** while it is being opened, the attempt fails by itself */
  private onLost(connection: RabbitMqConnection, error: unknown): void {
    if (this.connection !== connection) return;
    this.recovery.lost(closeReason(error).connection);
    this.events.onLost(error);
  }

  private bounded<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
    return abortable(promise, AbortSignal.any([signal, AbortSignal.timeout(this.settings.connectTimeout)]));
  }
}
