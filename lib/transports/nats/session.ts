import { abortable } from '../abortable.js';
import { askBeforeWrites } from '../ask-before-writes.js';
import type { BrokerSession, Send, SessionEvents } from '../session/session.js';
import { openConnection, type NatsMessage, type NatsModule, type OpenedConnection } from './client.js';
import { denied, noStream, notEncodable, refused, type NatsPublishError } from './errors.js';
import type { NatsEncoder } from './message.js';
import type { NatsSettings } from './options.js';

interface Pending {
  readonly send: Send;
  readonly subject: string;
}
/** What a stream answers to a publish. */
interface PubAck {
  readonly stream?: unknown;
  readonly seq?: unknown;
  readonly error?: { readonly err_code: number; readonly description: string };
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
  private readonly maxPayload: number;

  private constructor(
    private readonly opened: OpenedConnection,
    private readonly events: SessionEvents,
    private readonly encode: NatsEncoder,
  ) {
    this.maxPayload = opened.connection.info?.max_payload ?? Infinity;
  }

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
      await session.isHeard(signal);
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
      if (bytes > this.maxPayload)
        throw notEncodable(`${bytes} bytes are more than the server's max_payload, ${this.maxPayload}`);
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

  /** Until the server has the subscription; a login may have no right to it. */
  private async isHeard(signal: AbortSignal): Promise<void> {
    await abortable(this.opened.connection.flush(), signal);
  }

  private async watch(): Promise<void> {
    for await (const { type, error } of this.opened.connection.status()) {
      if (type === 'staleConnection') this.lost(new Error('The server answers no pings.'));
      if (type === 'error' && error !== undefined)
        this.denied(error as Error & { operation?: string; subject?: string });
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

  /** The server names no message: it answers one after the other, so that it is the first one to this subject. */
  private denied({ operation, subject }: { operation?: string; subject?: string }): void {
    if (operation !== 'publish') return;
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

/** @returns `undefined`: it is no answer of JetStream */
function readAck(message: NatsMessage, subject: string): typeof TAKEN | NatsPublishError | undefined {
  if (message.data.length === 0) return message.headers?.code === 503 ? noStream(subject) : undefined;
  const { stream, seq, error } = parsed(message) as PubAck;
  if (error !== undefined) {
    const { err_code, description } = Object(error) as NonNullable<PubAck['error']>;
    return refused(subject, err_code, String(description));
  }
  return typeof stream === 'string' && stream !== '' && typeof seq === 'number' && seq > 0 ? TAKEN : undefined;
}

function parsed(message: NatsMessage): object {
  try {
    return Object(JSON.parse(message.string())) as object;
  } catch {
    return {};
  }
}
