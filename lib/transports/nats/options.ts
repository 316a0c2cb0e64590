import type { HeaderValue } from '../../outbox-message.js';
import { refuseOptions, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import {
  fixedHeaders,
  INVALID,
  integer,
  needed,
  orFunction,
  text,
  trueOrFalse,
  type Rule,
} from '../../options/rules.js';
import { natsLimits, subjectProblem } from './limits.js';

/** Options of the client's `connect`. Those that are not listed are handed on, too. */
export interface NatsConnectionOptions {
  /** Names one server or several, `host:4222` or `nats://host:4222`. They hold no user and no password. */
  servers?: string | string[];
  user?: string;
  pass?: string;
  token?: string;
  /** Is one of the client's: `credsAuthenticator(…)`, `nkeyAuthenticator(…)`, `jwtAuthenticator(…)`, or several of them. */
  authenticator?: unknown;
  /** Is `{ ca, cert, key }`, `{ caFile, certFile, keyFile }` and others; `{}` asks for TLS with the system's authorities. */
  tls?: object | null;
  /** Is shown by the server's lists of connections. Default: `nestjs-outbox`. */
  name?: string;
  /** Is put in front of the subjects on which answers arrive. Default: `_INBOX`. */
  inboxPrefix?: string;
  /** Limits the time in which a connection to one server must open, ms. Default: 5,000. */
  timeout?: number;
  /** Is the time between two pings, ms. A dead server is noticed after two to three of them. Default: 10,000. */
  pingInterval?: number;
  maxPingOut?: number;
  noRandomize?: boolean;
  debug?: boolean;
}

export interface NatsOptions {
  /**
   * Says where the servers are, and who logs in: options of the client's `connect`, or a function that gives them for each
   * connection. The transport reconnects by itself, so `reconnect` and `waitOnFirstConnect` have no effect.
   */
  client: NatsConnectionOptions | (() => NatsConnectionOptions | Promise<NatsConnectionOptions>);
  /** Is put in front of every topic, to make the subject. Default: none. */
  subjectPrefix?: string;
  /** Names the stream that must take every message (`Nats-Expected-Stream`). Default: whichever has the subject. */
  stream?: string;
  /**
   * Sends the message id as `Nats-Msg-Id`, by which a stream drops what it has received within its `duplicate_window`. Turn it off
   * where one message goes to two subjects of one stream. Default: true.
   */
  deduplicate?: boolean;
  /** Names the JetStream domain of the streams, for the questions of start and doctor. Default: that of the server. */
  domain?: string;
  /**
   * Makes a relay that has connected ask, before any message, whether streams take the subjects of event classes. Turn it off where
   * a shared event class names a topic that this process never sends to. Default: true.
   */
  checkDestinations?: boolean;
  /** Adds headers to every message. A message's own header of the same name wins. Default: none. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** Tells the transport the servers' `max_payload`. `enqueue` refuses what does not fit, headers included. Default: 1 MiB, as NATS. */
  maxPayloadBytes?: number;
}

/** Checked. */
export interface NatsSettings extends NatsOptions {
  readonly subjectPrefix: string;
  readonly deduplicate: boolean;
  readonly checkDestinations: boolean;
  readonly maxPayloadBytes: number;
}

/** An address is never shown: it may hold a password. */
const client: Rule = {
  allowed: "an object such as { servers: 'host:4222' }, or a function that gives one",
  noText: true,
  parse: (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : INVALID),
  inside(value, path) {
    const { servers } = value as { servers?: unknown };
    if (servers === undefined) return [];
    const all = [servers].flat();
    const isRight = all.length > 0 && all.every((one) => typeof one === 'string' && one !== '');
    if (!isRight) return [`${path}.servers must be a string such as 'host:4222', or several`];
    if (all.some((one) => (one as string).includes('@')))
      return [
        `${path}.servers must hold no user and no password: give ${path}.user and ${path}.pass, or ${path}.token`,
      ];
    return all.some((one) => /^wss?:/i.test(one as string)) ? [`${path}.servers must not be WebSockets`] : [];
  },
};

const prefix: Rule = {
  allowed: 'a string',
  parse: (value) => (typeof value === 'string' ? value : INVALID),
  inside(value, path) {
    const problem = value === '' ? undefined : subjectProblem(`${value as string}topic`);
    return problem === undefined ? [] : [`${path} ${problem}`];
  },
};

const name = text(/^[^\s.*>/\\]+$/, 'a name without spaces, dots, wildcards and slashes');

const TABLE: FactoryTable<NatsOptions> = {
  factory: 'nats()',
  needed: 'client',
  rows: {
    client: row(needed(orFunction(client, client.allowed))),
    subjectPrefix: row(prefix, ''),
    stream: row(name),
    deduplicate: row(trueOrFalse, true),
    domain: row(name),
    checkDestinations: row(trueOrFalse, true),
    headers: row(fixedHeaders),
    maxPayloadBytes: row(integer(8_192, 64 * 1024 * 1024), 1024 * 1024),
  },
  // Of the client's options: given beside `client` by mistake.
  inner: Object.fromEntries(
    ['servers', 'user', 'pass', 'token', 'authenticator', 'tls', 'inboxPrefix'].map((each) => [each, `client.${each}`]),
  ),
};

/** Throws over all that is wrong. */
export function resolveNatsOptions(options: NatsOptions): NatsSettings {
  const settings = resolveFactory(TABLE, options) as NatsSettings;
  const { headers = {}, ...others } = settings;
  const message = { topic: 't', key: null, type: '', contentType: '', payloadBytes: 0, headers, options: {} };
  const problem = natsLimits(others).check?.(message);
  refuseOptions(
    TABLE.factory,
    problem === undefined ? [] : [`with these headers no message can be carried: ${problem}`],
  );
  return settings;
}
