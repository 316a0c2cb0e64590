import { randomBytes } from 'node:crypto';
import { jetstream, jetstreamManager, type JetStreamManager, type StreamConfig } from '@nats-io/jetstream';
import { connect, type ConnectionOptions, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node';
import type { MessageHeaders } from '../../lib/index.js';
import type { ReceivedMessage } from './publish.js';
import { untilDone } from './until.js';

export interface StreamMessage extends ReceivedMessage {
  readonly subject: string;
  readonly headers: MessageHeaders;
}
interface Arrivals {
  readonly found: StreamMessage[];
  readonly waiting: Set<() => void>;
}

/** An independent view of a server: own connection, own streams, removed at the end. */
export class NatsObserver {
  readonly prefix = `outbox-test-${randomBytes(5).toString('hex')}`;
  private readonly streams: string[] = [];
  private readonly arrivals = new Map<string, Arrivals>();

  private constructor(
    readonly connection: NatsConnection,
    readonly manager: JetStreamManager,
  ) {}

  static async connect(url: string, options: ConnectionOptions = {}): Promise<NatsObserver> {
    const connection = await connect({ servers: url, timeout: 60_000, ...options });
    return new NatsObserver(connection, await jetstreamManager(connection, { timeout: 60_000 }));
  }

  /** A stream, and the one subject that it takes, which is its name. */
  async stream(config: Partial<StreamConfig> = {}): Promise<string> {
    const name = this.unusedName();
    this.streams.push(name);
    await this.manager.streams.add({ name, subjects: [name], ...config });
    return name;
  }

  /** A subject that no stream takes, until one of this name is made. */
  unusedName(): string {
    return `${this.prefix}-${this.streams.length}-${randomBytes(3).toString('hex')}`;
  }

  async edit(name: string, config: Partial<StreamConfig>): Promise<void> {
    await this.manager.streams.update(name, config);
  }

  /** What arrived so far, in the order of the stream, once it is `count` or more; fails when nothing arrived for `timeout`. */
  async received(stream: string, count: number, timeout = 60_000): Promise<readonly StreamMessage[]> {
    const { found, waiting } = this.arrivals.get(stream) ?? (await this.consume(stream));
    if (found.length >= count) return found;
    await new Promise<void>((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        waiting.delete(arrived);
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error(`${found.length} of ${count} messages and ${timeout} ms without another`));
      }, timeout);
      const arrived = (): void => {
        timer.refresh();
        if (found.length < count) return;
        end();
        resolve();
      };
      waiting.add(arrived);
    });
    return found;
  }

  /** What arrived until each of these did; who was in doubt may be there twice. */
  async receivedAll(stream: string, ids: readonly string[]): Promise<readonly StreamMessage[]> {
    let found = await this.received(stream, ids.length);
    while (!ids.every((id) => found.some((message) => message.id === id)))
      found = await this.received(stream, found.length + 1);
    return found;
  }

  async depth(stream: string): Promise<number> {
    return (await this.manager.streams.info(stream)).state.messages;
  }

  async close(): Promise<void> {
    for (const name of this.streams) await this.manager.streams.delete(name).catch(() => undefined);
    await this.connection.close();
  }

  private async consume(stream: string): Promise<Arrivals> {
    const arrivals: Arrivals = { found: [], waiting: new Set() };
    this.arrivals.set(stream, arrivals);
    // A server that comes back may lose the first question.
    const consumer = await untilDone(() => jetstream(this.connection).consumers.get(stream));
    const messages = await consumer.consume();
    void (async () => {
      for await (const { subject, headers, data } of messages) {
        arrivals.found.push(seen(subject, headers, data));
        for (const arrived of arrivals.waiting) arrived();
      }
    })();
    return arrivals;
  }
}

function seen(subject: string, given: MsgHdrs | undefined, data: Uint8Array): StreamMessage {
  const headers = Object.fromEntries(
    (given?.keys() ?? []).map((name) => {
      const values = given!.values(name);
      return [name, values.length === 1 ? values[0]! : values];
    }),
  );
  const { id, key = null, tombstone } = headers as Record<string, string>;
  return { id: id!, key, subject, headers, payload: tombstone === 'true' ? null : data };
}
