import type { HeaderValue } from '../../outbox-message.js';
import { resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import { fixedHeaders, integer, INVALID, text, type Rule } from '../../options/rules.js';
import { isSqsClient, type SqsClient, type SqsClientConfig } from './client.js';
import { OUTBOX_ATTRIBUTES } from './entry.js';

/** Gives the URL of a topic's queue. Undefined: the queue is looked up by its name. */
export type SqsQueueUrls = Readonly<Record<string, string>> | ((topic: string) => string | undefined);

export interface SqsOptions {
  /**
   * Is the configuration of an `SQSClient`, or an `SQSClient` of the application, which the transport leaves open. Default: `{}`,
   * where the SDK finds region and credentials in the environment.
   */
  client?: SqsClient | SqsClientConfig;
  /** Is put before a topic to get the name of its queue. Default: none. */
  queuePrefix?: string;
  /** Is put behind a topic to get the name of its queue: `.fifo` for FIFO queues. Default: none. */
  queueSuffix?: string;
  /**
   * Maps topics to URLs of queues, which then are not looked up: queues of other accounts, or of other names. A function that
   * throws, or gives no URL, fails the attempt of the message. Default: each queue is looked up once, by its name.
   */
  queueUrl?: SqsQueueUrls;
  /**
   * Limits a message, and all messages of a request together, in bytes as SQS counts them: body and attributes. `enqueue` refuses a
   * larger one. Default: 262,144 (256 KiB). SQS takes up to 1,048,576, from queues whose `MaximumMessageSize` allows it.
   */
  maxMessageBytes?: number;
  /** Limits the requests that are under way at the same time, each with up to 10 messages. Default: 50. */
  maxRequests?: number;
  /** Adds headers to every message. A message's own header of the same name wins. Default: none. */
  headers?: Readonly<Record<string, HeaderValue>>;
}

/** Checked. */
export interface SqsSettings extends SqsOptions {
  readonly client: SqsClient | SqsClientConfig;
  readonly queuePrefix: string;
  readonly queueSuffix: string;
  readonly maxMessageBytes: number;
  readonly maxRequests: number;
}

const aClient: Rule = {
  allowed: 'the configuration of an SQSClient, or an SQSClient',
  noText: true,
  parse: (value) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? value : INVALID),
};

const queueUrls: Rule = {
  allowed: 'an object of topics and URLs, or a function',
  parse: (value) =>
    typeof value === 'function' || (typeof value === 'object' && value !== null && !Array.isArray(value))
      ? value
      : INVALID,
  inside: (value, path) =>
    typeof value === 'function'
      ? []
      : Object.entries(value as object)
          .filter(([, url]) => !isQueueUrl(url))
          .map(([topic]) => `${path}.${topic} must be the URL of a queue, without user and password`),
};

const TABLE: FactoryTable<SqsOptions> = {
  factory: 'sqs',
  rows: {
    client: row(aClient, {}),
    queuePrefix: row(text(/^[\w-]{0,79}$/, 'a string of up to 79 letters, digits, hyphens and underscores'), ''),
    queueSuffix: row(
      text(/^[\w-]{0,74}(\.fifo)?$/, 'a string of letters, digits, hyphens and underscores; it may end with .fifo'),
      '',
    ),
    queueUrl: row(queueUrls),
    maxMessageBytes: row(integer(4_096, 1_048_576), 262_144),
    maxRequests: row(integer(1, 1_000), 50),
    headers: row(fixedHeaders),
  },
  // Of the SDK's configuration: given beside `client` by mistake.
  inner: Object.fromEntries(
    ['region', 'endpoint', 'credentials', 'requestHandler'].map((name) => [name, `client.${name}`]),
  ),
  across: ({ headers, client }) => [
    ...OUTBOX_ATTRIBUTES.filter((name) => Object.hasOwn(Object(headers) as object, name)).map(
      (name) => `headers.${name} is reserved`,
    ),
    ...(isSqsClient(client) || (client as SqsClientConfig | undefined)?.['maxAttempts'] === undefined
      ? []
      : ['client.maxAttempts cannot be set, as the outbox tries again by itself']),
  ],
};

export function resolveSqsOptions(options: SqsOptions): SqsSettings {
  return resolveFactory(TABLE, options) as SqsSettings;
}

/** The value is not shown: it may hold a password. */
export function isQueueUrl(url: unknown): url is string {
  if (typeof url !== 'string' || !URL.canParse(url)) return false;
  const { protocol, username, password, pathname, search } = new URL(url);
  return /^https?:$/.test(protocol) && username + password + search === '' && /[^/]$/.test(pathname);
}
