import { abortable } from '../abortable.js';
import { askBeforeWrites } from '../ask-before-writes.js';
import type { BrokerSession, Send, SessionEvents } from '../session/session.js';
import { openConnection, type NatsMessage, type NatsModule, type OpenedConnection } from './client.js';
import { denied, inDoubt, noStream, notEncodable, refused, type NatsPublishError } from './errors.js';
import type { NatsEncoder } from './message.js';
import type { NatsSettings } from './options.js';

interface Pending {
  readonly send: Send;
  readonly subject: string;
}

/**
 * Publishes to JetStream: each message with a subject of its own for the answer, below one inbox. Not by the client's `publish` of
 * JetStream, which has a timer and a chain of promises for each message, and sends again.
 */
export class NatsSession implements BrokerSession {
  readonly window = 4_096;
  /** By the last token of the answer's subject, in the order in which they were sent. */
  private readonly pending = new Map<string, Pending>();
  private sent = 0;
  private isOver = false;

  private constructor(
    private readonly opened: OpenedConnection,
    private readonly events: SessionEvents,
    private readonly encode: NatsEncoder,
  ) {}

  static async open(
    nats: NatsModule,
    settings: NatsSettings,
    encode: NatsEncoder,
    signal: AbortSignal,
    events: SessionEvents,
  ): Promise<NatsSession> {
    const opened = await openConnection(nats, settings.client, signal);
    const session = new NatsSession(opened, events, encode);
    try {
      session.listen();
      // Until the server has the subscription; a login may have no right to it.
      await abortable(opened.connection.flush(), signal);
      return session;
    } catch (error) {
      session.destroy();
      throw error;
    }
  }

  send(sends: readonly Send[]): void {
    for (const send of sends) {
      if (this.isOver) return;
      this.publish(send);
    }
    if (this.pending.size > 2 * this.window) this.sweep();
  }

  destroy(): void {
    this.isOver = true;
    this.opened.destroy();
  }

  async close(): Promise<void> {
    this.isOver = true;
    await this.opened.connection.close();
  }

  private publish(send: Send): void {
    const token = String((this.sent += 1));
    try {
      const { subject, payload, headers, bytes } = this.encode(send.message);
      const most = this.opened.connection.info?.max_payload ?? Infinity;
      if (bytes > most) throw notEncodable(`${bytes} bytes are more than the server's max_payload, ${most}`);
      this.pending.set(token, { send, subject });
      this.opened.connection.publish(subject, payload, { reply: `${this.opened.inbox}.${token}`, headers });
    } catch (error) {
      this.pending.delete(token);
      send.unsendable(error);
    }
  }

  private listen(): void {
    const { connection, socket, inbox } = this.opened;
    askBeforeWrites(socket, () => this.events.mayWrite());
    connection.subscribe(`${inbox}.*`, {
      callback: (error, message) => (error === null ? this.answered(message) : this.lost(error)),
    });
    void this.watch();
    void connection.closed().then((error) => this.lost(error ?? serverClosed('The server closed the connection.')));
  }

  private async watch(): Promise<void> {
    for await (const { type, error } of this.opened.connection.status()) {
      if (type === 'staleConnection') this.lost(new Error('The server answers no pings.'));
      if (type === 'error' && error !== undefined) this.said(error);
    }
  }

  private lost(error: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    this.events.lost(error);
  }

  private answered(message: NatsMessage): void {
    const token = message.subject.slice(this.opened.inbox.length + 1);
    const pending = this.pending.get(token);
    if (pending === undefined) return;
    const result = readAck(message, pending.subject);
    // Somebody else answered, who listens to the subject: no stream did.
    if (result === undefined) return;
    this.pending.delete(token);
    if (result === TAKEN) pending.send.taken();
    else pending.send.refused(result);
  }

  /** A right is denied; the server names no message, and answers one after the other: it is the first one to this subject. */
  private said(error: Error & { operation?: string; subject?: string }): void {
    if (error.operation === undefined) return this.lost(error);
    const subject = error.subject?.replace(/\\([\\"])/g, '$1'); // quoted by the server
    for (const [token, pending] of this.pending) {
      if (pending.subject !== subject) continue;
      this.pending.delete(token);
      return pending.send.refused(denied(subject));
    }
  }

  /** What got no answer in time has none of those who wait; it is kept as long as it may be answered, and there is room. */
  private sweep(): void {
    for (const [token, { send }] of this.pending) if (send.isSettled) this.pending.delete(token);
  }
}

/** Said nothing of why. */
const serverClosed = (text: string): Error => Object.assign(new Error(text), { code: 'ServerClosed' });

const TAKEN = Symbol('taken');

/** @returns `undefined`: it is no answer of JetStream; an error of JetStream has a number */
function readAck(message: NatsMessage, subject: string): typeof TAKEN | NatsPublishError | undefined {
  if (message.data.length === 0) return message.headers?.code === 503 ? noStream(subject) : undefined;
  const { stream, seq, duplicate, error } = parsed(message);
  const { err_code, description } = Object(error) as { err_code?: unknown; description?: unknown };
  if (typeof err_code === 'number') return refused(subject, err_code, String(description));
  if (typeof stream !== 'string' || stream === '' || typeof seq !== 'number') return undefined;
  if (seq > 0) return TAKEN;
  return seq === 0 && duplicate === true ? inDoubt(subject) : undefined;
}

/** What a stream answers to a publish, or whatever it is. */
function parsed(message: NatsMessage): { readonly [name in 'stream' | 'seq' | 'duplicate' | 'error']?: unknown } {
  try {
    return Object(JSON.parse(message.string())) as object;
  } catch {
    return {};
  }
}
