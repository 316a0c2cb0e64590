import { randomBytes } from 'node:crypto';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { abortable } from '../abortable.js';
import { ENCODED } from '../broker-address.js';
import { cutClient, type MqttClient, type MqttJs, type ServerProperties } from './client.js';
import { disconnected, noQos, notConnected } from './errors.js';
import { isMqttUrl } from './option-checks.js';
import type { MqttSettings, MqttUrl } from './options.js';
import { MOST_IDS, type Flight } from './session.js';

export interface OpenedClient {
  readonly client: MqttClient;
  readonly server: ServerProperties;
  readonly flights: Map<number, Flight>;
}

/** Another one for each relay: a broker ends the connection of whoever has the client id of a new one. */
export const newClientId = ({ clientIdPrefix }: MqttSettings): string =>
  clientIdPrefix + randomBytes(8).toString('hex');

/** Opens one connection. mqtt.js neither opens another one, nor keeps a message for it. */
export async function openClient(
  mqtt: MqttJs,
  settings: MqttSettings,
  url: MqttUrl,
  clientId: string,
  signal: AbortSignal,
): Promise<OpenedClient> {
  const given = typeof url === 'function' ? await abortable(Promise.resolve().then(url), signal) : url;
  signal.throwIfAborted();
  const flights = new Map<number, Flight>();
  const client = mqtt.connect({
    ...settings.tls,
    ...addressOf(given),
    clientId,
    protocolVersion: 5,
    clean: true,
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    connectTimeout: settings.connectTimeout,
    keepalive: Math.ceil(settings.keepAlive / 1_000),
    messageIdProvider: packetIds(flights),
  });
  try {
    return { client, flights, server: await abortable(connack(client), signal) };
  } catch (error) {
    cutClient(client);
    throw notConnected(error);
  }
}

function connack(client: MqttClient): Promise<ServerProperties> {
  return new Promise((resolve, reject) => {
    client.on('error', reject);
    client.on('disconnect', ({ reasonCode }) => reject(disconnected(reasonCode)));
    client.on('close', () => reject(disconnected()));
    client.on('connect', ({ properties = {} }) => {
      if (properties.maximumQoS === 0) reject(noQos());
      else resolve(properties);
    });
  });
}

/** Parsed here: mqtt.js takes a user name up to its last colon, and keeps the brackets of an IPv6 address. */
function addressOf(url: unknown): object {
  if (!isMqttUrl(url))
    throw new OutboxConfigurationError(
      'INVALID_OPTIONS',
      `mqtt: the function url gave no mqtt://host or mqtts://host; ${ENCODED}.`,
    );
  const { protocol, hostname, port, username, password } = new URL(url);
  return {
    protocol: protocol.slice(0, -1),
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
  };
}

/** mqtt.js has providers of its own; one of them gives a number again that waits for its answer, the other one none at all. */
function packetIds(flights: ReadonlyMap<number, unknown>): object {
  let last = 0;
  return {
    allocate(): number {
      do last = (last % MOST_IDS) + 1;
      while (flights.has(last));
      return last;
    },
    getLastAllocated: (): number => last,
    register: () => true,
    deallocate: () => undefined,
    clear: () => undefined,
  };
}
