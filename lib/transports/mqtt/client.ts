import type { Duplex } from 'node:stream';
import type { Headers } from '../envelope.js';
import { cutSocket } from '../cut-socket.js';
import { loadPeer } from '../load-peer.js';

/** The part of mqtt.js that is used. Own types, as its own need the types of its dependencies. */
export interface MqttClient {
  /** The socket. */
  readonly stream: Duplex;
  on(event: 'connect', listener: (packet: Connack) => void): unknown;
  on(event: 'disconnect' | 'packetreceive', listener: (packet: MqttPacket) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  publish(topic: string, payload: string | Buffer, options: object): unknown;
  getLastMessageId(): number;
  end(force: boolean, done?: () => void): unknown;
}

export interface MqttPacket {
  readonly cmd: string;
  readonly messageId?: number;
  readonly reasonCode?: number;
  readonly properties?: { readonly reasonString?: string };
}
export interface Connack extends MqttPacket {
  readonly properties?: ServerProperties;
}
/** What a broker says of itself in its CONNACK. What is left out has no limit but the protocol's. */
export interface ServerProperties {
  readonly receiveMaximum?: number;
  readonly maximumPacketSize?: number;
  readonly maximumQoS?: number;
  readonly retainAvailable?: boolean;
  readonly serverKeepAlive?: number;
  readonly reasonString?: string;
}

/** What a message is on the wire. */
export interface MqttPublish {
  readonly topic: string;
  readonly payload: string | Buffer;
  readonly retain: boolean;
  readonly properties: {
    readonly contentType: string;
    readonly userProperties: Headers;
    readonly messageExpiryInterval?: number;
    readonly responseTopic?: string;
    readonly correlationData?: string;
  };
}

export interface MqttJs {
  connect(options: object): MqttClient;
}

export async function loadMqtt(): Promise<MqttJs> {
  const load = (): Promise<unknown> => import('mqtt');
  const loaded = (await loadPeer('mqtt()', 'mqtt', load)) as MqttJs & { readonly default?: MqttJs };
  return loaded.default ?? loaded;
}

/** Nothing that the client, Node or the kernel still holds is sent. */
export function cutClient(client: MqttClient): void {
  cutSocket(client.stream as Parameters<typeof cutSocket>[0]);
  client.end(true);
}
