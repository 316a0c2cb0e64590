import type { Duration, HeaderValue } from '../../outbox-message.js';
import { refuseOptions, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import {
  anObject,
  duration,
  fixedHeaders,
  integer,
  INVALID,
  needed,
  objectOf,
  orFunction,
  trueOrFalse,
  type Rule,
} from '../../options/rules.js';
import { ENCODED, isMisread } from '../broker-address.js';
import { namesProblem } from './limits.js';

export interface RedisOptions {
  /**
   * Says where the server is, with user, password and database: `redis://user:password@host:6379/0`, or `rediss://` for TLS.
   * A function is called for every new connection. Default: none; then `client` must say it.
   */
  url?: string | (() => string | Promise<string>);
  /**
   * Gives options of ioredis: `host`, `port`, `username`, `password`, `db`, `tls`, `sentinels` with `name`, and others. What it has
   * for retries and queues is replaced. A function is called for every new connection. Default: none.
   */
  client?: object | (() => object | Promise<object>);
  /** Is put before the topic to make the name of the stream. Default: none. */
  streamPrefix?: string;
  /**
   * Makes the first message make its stream. False: a stream that is not there is an outage of that stream. Default: true, as
   * XADD does.
   */
  createStreams?: boolean;
  /**
   * Trims a stream to about this many entries with each message: the oldest are dropped, whether they were read or not. Default:
   * streams grow until somebody trims them.
   */
  maxLength?: number;
  /**
   * Waits with WAIT after each XADD until so many replicas have the message, for at most `timeout` (1 ms to 1 min, default 1 s). Fewer
   * replicas: the message is not published, and is sent again. Default: the answer of the server counts.
   */
  waitReplicas?: { replicas: number; timeout?: Duration };
  /** Adds headers to every message. A message's own header of the same name wins. Default: none. */
  headers?: Readonly<Record<string, HeaderValue>>;
  /** Limits the messages that wait for their answer. Default: 5000. */
  maxUnanswered?: number;
  /** Limits the payload of a message; `enqueue` refuses a larger one. Default: 512 MB, as `proto-max-bulk-len` of the server. */
  maxPayloadBytes?: number;
}

/** Checked; milliseconds. */
export interface RedisSettings extends Pick<RedisOptions, 'url' | 'client' | 'headers' | 'maxLength'> {
  readonly streamPrefix: string;
  readonly createStreams: boolean;
  readonly waitReplicas?: { readonly replicas: number; readonly timeout: number };
  readonly maxUnanswered: number;
  readonly maxPayloadBytes: number;
}

const aUrl: Rule = {
  allowed: `redis://host or rediss://host; ${ENCODED}`,
  noText: true,
  parse: (value) => (typeof value === 'string' && !isMisread(value) && /^rediss?:\/\//.test(value) ? value : INVALID),
};
const aPrefix: Rule = { allowed: 'a string', parse: (value) => (typeof value === 'string' ? value : INVALID) };
const ONE_SECOND = 1_000;
const waitTimeout = duration('1ms', '1m');
const replication = objectOf(
  { replicas: needed(integer(1, 1_000)), timeout: waitTimeout },
  'an object with replicas, and timeout if any',
);
const waitReplicas: Rule = {
  ...replication,
  parse(value) {
    if (replication.parse(value) === INVALID) return INVALID;
    const { replicas, timeout = ONE_SECOND } = value as { replicas: unknown; timeout?: unknown };
    return { replicas, timeout: waitTimeout.parse(timeout) };
  },
};
const client: Rule = {
  ...orFunction(anObject),
  inside: (value) =>
    (value as { keyPrefix?: unknown }).keyPrefix ? ['client.keyPrefix must be left out: give streamPrefix'] : [],
};

const TABLE: FactoryTable<RedisOptions> = {
  factory: 'redis',
  needed: 'url',
  hint: "For example: redis({ url: 'redis://localhost:6379' }).",
  rows: {
    url: row(orFunction(aUrl)),
    client: row(client),
    streamPrefix: row(aPrefix, ''),
    createStreams: row(trueOrFalse, true),
    maxLength: row(integer(1, Number.MAX_SAFE_INTEGER)),
    waitReplicas: row(waitReplicas),
    headers: row(fixedHeaders),
    maxUnanswered: row(integer(1, 1_000_000), 5_000),
    maxPayloadBytes: row(integer(1, 2 ** 31 - 1), 512 * 1024 * 1024),
  },
  across: ({ url, client: options }) =>
    url === undefined && options === undefined ? ['url or client must be given'] : [],
};

/** Throws over all that is wrong. */
export function resolveRedisOptions(options: RedisOptions): RedisSettings {
  const settings = resolveFactory(TABLE, options) as RedisSettings;
  const problem = namesProblem(settings.headers ?? {});
  refuseOptions(TABLE.factory, problem === undefined ? [] : [`headers: ${problem}`]);
  return settings;
}
