import { systemClock, within } from '../../time/clock.js';
import type { BrokerSession, Send, SessionEvents } from '../session/session.js';
import { cutClient, type MqttClient, type MqttPacket, type ServerProperties } from './client.js';
import { disconnected, notTaken, refusedMessage } from './errors.js';
import { packetSize, type MqttEncoder } from './message.js';

/** A message that mqtt.js was given. */
export interface Flight {
  readonly send: Send;
  readonly topic: string;
  readonly retain: boolean;
}

/** One connection of mqtt.js, which publishes with QoS 1. */
export class MqttSession implements BrokerSession {
  readonly window: number;
  /** Told to send, and not with mqtt.js yet: it would keep what the socket does not take. */
  private readonly queue: Send[] = [];
  /** Cancels a flush that will come. */
  private soon: (() => void) | undefined;
  private isHearing = false;
  private isOver = false;

  constructor(
    private readonly client: MqttClient,
    /** With mqtt.js, by packet identifier. */
    private readonly flights: Map<number, Flight>,
    private readonly server: ServerProperties,
    private readonly parts: {
      readonly encode: MqttEncoder;
      readonly events: SessionEvents;
      readonly maxInFlight: number;
      readonly mandatory: boolean;
    },
  ) {
    this.window = Math.min(parts.maxInFlight, server.receiveMaximum ?? MOST_IDS);
    (client.stream as { setNoDelay?(noDelay: boolean): void }).setNoDelay?.(true);
    client.on('packetreceive', (packet) => this.hear(packet));
    client.on('disconnect', ({ reasonCode }) => this.lost(disconnected(reasonCode)));
    client.on('error', (error) => this.lost(disconnected(undefined, error)));
    client.on('close', () => this.lost(disconnected()));
    client.stream.on('drain', () => this.flush());
  }

  send(sends: readonly Send[]): void {
    this.queue.push(...sends);
    if (!this.isHearing) this.flush();
  }

  destroy(): void {
    if (!this.end()) return;
    cutClient(this.client);
  }

  async close(): Promise<void> {
    if (!this.end()) return;
    const closed = new Promise<void>((resolve) => void this.client.end(false, resolve));
    if (!(await within(systemClock, CLOSE_TIMEOUT, closed))) cutClient(this.client);
  }

  private end(): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    this.soon?.();
    this.queue.length = 0;
    this.flights.clear();
    return true;
  }

  private lost(error: unknown): void {
    if (!this.isOver) this.parts.events.lost(error);
  }

  private flush(): void {
    this.soon?.();
    this.soon = undefined;
    const { client, queue, flights } = this;
    if (queue.length === 0 || this.isOver || !this.parts.events.mayWrite()) return;
    // With the broker, also those count that were given up and have no answer yet.
    while (queue.length > 0 && flights.size < this.window && !client.stream.writableNeedDrain)
      this.write(queue.shift()!);
  }

  private write(send: Send): void {
    try {
      const { topic, payload, retain, properties } = this.checked(send);
      this.client.publish(topic, payload, { qos: 1, retain, properties });
      this.flights.set(this.client.getLastMessageId(), { send, topic, retain });
    } catch (error) {
      send.unsendable(error);
    }
  }

  private checked({ message }: Send): ReturnType<MqttEncoder> {
    const publish = this.parts.encode(message);
    const { maximumPacketSize = Infinity, retainAvailable = true } = this.server;
    if (publish.retain && !retainAvailable) throw notTaken('it keeps no retained messages');
    if (maximumPacketSize < Infinity) {
      const size = packetSize(publish);
      if (size > maximumPacketSize)
        throw notTaken(
          `it has ${size} bytes with its headers, and the broker's Maximum Packet Size is ${maximumPacketSize}`,
        );
    }
    return publish;
  }

  private hear({ cmd, messageId = 0, reasonCode = 0, properties }: MqttPacket): void {
    if (cmd !== 'puback') return;
    const flight = this.flights.get(messageId);
    if (flight === undefined) return;
    this.flights.delete(messageId);
    const { send, topic, retain } = flight;
    this.isHearing = true;
    // The broker has a retained message, whoever else gets it.
    const isTaken = reasonCode === 0 || (reasonCode === NO_SUBSCRIBERS && (retain || !this.parts.mandatory));
    if (isTaken) send.taken();
    else send.refused(refusedMessage(topic, reasonCode, properties?.reasonString));
    this.isHearing = false;
    // Answers come one by one out of what was read at once: what they make room for goes out together.
    if (this.queue.length > 0) this.soon ??= systemClock.after(0, () => this.flush());
  }
}

const NO_SUBSCRIBERS = 0x10;
/** Packet identifiers of one connection. */
export const MOST_IDS = 65_535;
/** Milliseconds. */
const CLOSE_TIMEOUT = 3_000;
