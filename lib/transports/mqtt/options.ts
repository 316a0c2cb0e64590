import type { ConnectionOptions } from 'node:tls';
import type { Duration, HeaderValue, MessageOptions } from '../../outbox-message.js';
import type { CloudEventsOptions } from '../envelope.js';

/** Settings of MQTT for one message, as its `options.mqtt`. */
export interface MqttMessageOptions {
  /** Makes the broker keep the message as the last of its topic, for those who subscribe later. Default: false. */
  readonly retain?: boolean;
  /** Limits how long the broker keeps the message for a subscriber, in seconds from its publish. Default: no limit. */
  readonly messageExpiryInterval?: number;
  /** Names the topic for an answer. Default: none. */
  readonly responseTopic?: string;
  /** Tells the asker which question an answer is for; sent as bytes of UTF-8. Default: none. */
  readonly correlationData?: string;
}

/**
 * `mqtt://user:password@host:port` or `mqtts://…`, or a function that is called for every new connection, so that a password
 * or token that was rotated is found without a restart.
 */
export type MqttUrl = string | (() => string | Promise<string>);

export interface MqttOptions {
  /** Says where the broker is, with user and password. Several are tried one after the other. */
  url: MqttUrl | readonly MqttUrl[];
  /** Is put before the topic of every message as it is: `'shop/'`. Default: none. */
  topicPrefix?: string;
  /**
   * Makes a message that no subscriber gets a failure, where the broker says so (reason code 0x10); otherwise it is lost.
   * Retained messages are kept by the broker, and need no subscriber. Default: true.
   */
  mandatory?: boolean;
  /** Sets options of Node's `tls.connect` for `mqtts://`: `ca`, `cert`, `key`, `servername` and others. Default: none. */
  tls?: ConnectionOptions;
  /** Begins the client id, which is unique for each relay: random characters follow. Default: `'outbox-'`. */
  clientIdPrefix?: string;
  /** Limits the messages that wait for their PUBACK; the broker's Receive Maximum does, too. Default: 5000. */
  maxInFlight?: number;
  /** Limits the time in which a connection must open, with the broker's CONNACK. Default: 5 s. */
  connectTimeout?: Duration;
  /**
   * Sets the keep alive, in whole seconds; the broker may set another. A dead broker is noticed after 1.5 of them.
   * Default: 10 s.
   */
  keepAlive?: Duration;
  /** Adds user properties to every message; text only. A message's own header of the same name wins. Default: none. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** Writes user properties of CloudEvents 1.0 in binary mode, with this `source`. Default: none. */
  cloudEvents?: CloudEventsOptions;
  /** Limits the payload of a message; `enqueue` refuses a larger one. Default: 1,000,000 bytes. */
  maxPayloadBytes?: number;
}

/** Checked; milliseconds. */
export interface MqttSettings extends Omit<MqttOptions, 'url'> {
  readonly url: readonly MqttUrl[];
  readonly topicPrefix: string;
  readonly mandatory: boolean;
  readonly clientIdPrefix: string;
  readonly maxInFlight: number;
  readonly connectTimeout: number;
  readonly keepAlive: number;
  readonly maxPayloadBytes: number;
}

export const mqttOptionsOf = (options: MessageOptions): MqttMessageOptions | undefined =>
  options['mqtt'] as MqttMessageOptions | undefined;
