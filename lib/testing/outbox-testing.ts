import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import type { EventClass } from '../enqueue/events/event-metadata.js';
import { OutboxDispatcher } from '../relay/dispatcher.js';
import type { RunReport } from '../relay/contracts.js';
import { decodeHeaders } from '../message/headers.js';
import { isJson } from '../message/serializer.js';
import type { OutboxRuntime } from '../nest/assemble.js';
import type { Duration, MessageHeaders, NewMessage, OutboxMessage } from '../outbox-message.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import { gunzip, isGzip, MOST_BYTES } from '../payloads/gzip.js';
import { DEFAULT_NAME, getOutboxToken, overridesToken, runtimeToken } from '../outbox.tokens.js';
import { milliseconds } from '../time/duration.js';
import { FakeClock } from './fake-clock.js';
import { expectOne, type RecordedMessage, type Wanted } from './matching.js';
import { TestOverrides } from './override-outbox.js';
import type { RecordingTransport } from './recording-transport.js';

/** The methods that it uses of an application or a testing module. */
export interface ModuleLike {
  get(token: unknown, options: { strict: boolean }): unknown;
}

/** Milliseconds: what no `delay` is above. */
const MOST = 3650 * 86_400_000;
/** Ids a statement. */
const AT_ONCE = 1_000;

/** The test's view of an outbox that `overrideOutbox` prepared. */
export function outboxTesting(moduleRef: ModuleLike, name: string = DEFAULT_NAME): OutboxTesting {
  const get = (token: unknown): unknown => moduleRef.get(token, { strict: false });
  const overrides = get(overridesToken(name));
  assert.ok(
    overrides instanceof TestOverrides,
    `Call overrideOutbox(builder${name === DEFAULT_NAME ? '' : `, { name: '${name}' }`}) before compile().`,
  );
  const runtime = get(runtimeToken(name)) as OutboxRuntime;
  return new OutboxTesting(overrides, runtime, get(getOutboxToken(name, OutboxDispatcher)) as OutboxDispatcher);
}

export interface DrainReport extends RunReport {
  /** Messages that it came across and left where they are, as this application did not enqueue them. */
  readonly left: number;
}

export class OutboxTesting {
  /** @internal */
  constructor(
    /** @internal */ readonly overrides: TestOverrides,
    /** @internal */ readonly runtime: OutboxRuntime,
    /** @internal */ readonly dispatcher: OutboxDispatcher,
  ) {}

  /**
   * Publishes until nothing is ready or due of what this application enqueued through its outbox, before `clear()`, too. What others
   * left in the tables, an earlier test, your application or plain SQL, stays as it is.
   * @param options.all also what others left there: it goes to the recording transports and is deleted
   */
  async drain({ timeout, all = false }: { timeout?: number; all?: boolean } = {}): Promise<DrainReport> {
    const { own } = this.overrides;
    own.begin(all);
    try {
      const report = await this.dispatcher.drain(timeout === undefined ? {} : { timeout });
      return { ...report, left: own.left.size };
    } finally {
      own.all = false;
    }
  }

  /**
   * Lets time pass for what this application enqueued and committed, before `clear()`, too: what `delay`, `deliverAt` or a retry put
   * off falls due, for each key in the order of its times, `retry.maxAge` comes nearer, and a cleaner that runs then finds it that much older. Nothing is
   * waited for, and messages of others stay as they are. A `FakeClock` of this test goes on by the same time.
   * Call it between two drains: what is being published at the moment stays as it is.
   * @param duration milliseconds, or `'90s'`, `'5m'`, `'1d'`; more than 0, at most 3,650 days
   * @throws TypeError when it is none
   * @throws OutboxConfigurationError `UNSUPPORTED_DATABASE`: the store is one of yours, and has no `aging`
   */
  async advance(duration: Duration): Promise<void> {
    const ms = milliseconds(duration);
    if (ms === undefined || ms === 0 || ms > MOST)
      throw new TypeError(`advance(): ${inspect(duration)}; must be '5m' or milliseconds, at most '3650d'.`);
    const { aging } = this.runtime.store;
    if (aging === undefined)
      throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'advance(): this store has no aging.', {
        hint: 'Give it one, or a database of the outbox.',
      });
    const ids = [...this.overrides.own.ids];
    for (let first = 0; first < ids.length; first += AT_ONCE) await aging.age(ids.slice(first, first + AT_ONCE), ms);
    const { clock } = this.overrides;
    if (clock instanceof FakeClock) await clock.advance(ms);
    this.dispatcher.nudge('parked');
  }

  /** The stand-in for a transport. Default: of the only one, or the default one. */
  transport(name: string = this.runtime.options.defaultTransport): RecordingTransport {
    const transport = this.overrides.transports.get(name);
    assert.ok(
      transport,
      `There is no recording transport '${name}'; there are: ${[...this.overrides.transports.keys()].join(', ')}`,
    );
    return transport;
  }

  /**
   * Returns the enqueued messages that were committed; with `capture` also those that are not committed yet. Messages that were
   * rolled back are missing, unless the server rolled back at COMMIT without an error, after a failure that the application
   * swallowed: on MariaDB and MySQL a deadlock, and with a pg older than 8.23 an enqueue.
   */
  enqueued(): RecordedMessage[] {
    const { capture = false } = this.overrides.settings;
    return this.overrides.enqueued
      .filter(({ committed }) => committed || capture)
      .map(({ message }) => this.fromNew(message));
  }
  /** For each message that was not written, as its `dedupKey` was known: the id of the one that has it. Committed ones only. */
  deduplicated(): string[] {
    return [...this.overrides.deduplicated];
  }
  /** Returns the messages that the transports acknowledged, each transport's in its order. */
  published(transport?: string): RecordedMessage[] {
    const names = transport === undefined ? [...this.overrides.transports.keys()] : [transport];
    return names.flatMap((name) => this.transport(name).published.map((message) => fromStored(name, message)));
  }

  /** Asserts that a message of this class or type was enqueued whose payload has these fields, as JSON makes them. @returns it */
  expectEnqueued<T>(wanted: EventClass<T> | string, payload?: Partial<T>): RecordedMessage {
    return expectOne('enqueued', this.enqueued(), wanted as Wanted, payload);
  }
  /** The same of what was published: call `drain()` first. */
  expectPublished<T>(wanted: EventClass<T> | string, payload?: Partial<T>): RecordedMessage {
    return expectOne('published', this.published(), wanted as Wanted, payload, leftText(this.overrides.own.left.size));
  }

  /** Forgets all recorded messages, and the settings of the transports. Rows in the database stay. */
  clear(): void {
    this.overrides.enqueued = [];
    this.overrides.deduplicated = [];
    for (const transport of this.overrides.transports.values()) transport.clear();
  }

  /** @internal */
  fromNew(message: NewMessage): RecordedMessage {
    const { headers } = message;
    const transport =
      [...this.runtime.enqueue.transportIds].find(([, number]) => number === message.transport)?.[0] ?? '';
    const bytes = message.payload === null ? null : Buffer.from(message.payload);
    return recorded(message, transport, headers === null ? {} : decodeHeaders(headers), bytes);
  }
}

function leftText(left: number): string {
  if (left === 0) return '';
  const what = left === 1 ? '1 message that was' : `${left} messages that were`;
  return `. drain() left ${what} not enqueued by this application; drain({ all: true }) takes such, too`;
}

function fromStored(transport: string, message: OutboxMessage): RecordedMessage {
  return recorded(message, transport, message.headers, message.payload);
}

type Labels = Pick<RecordedMessage, 'id' | 'type' | 'version' | 'topic' | 'key' | 'contentType'>;
function recorded(labels: Labels, transport: string, headers: MessageHeaders, bytes: Buffer | null): RecordedMessage {
  const { id, type, version, topic, key, contentType } = labels;
  return {
    id,
    type,
    version,
    transport,
    topic,
    key,
    contentType,
    headers,
    payload: parsed(contentType, headers, bytes),
  };
}

/** A label is what the application says: bytes that are none of it, or encrypted, are shown as they are. */
function parsed(contentType: string, headers: MessageHeaders, bytes: Buffer | null): unknown {
  if (bytes === null || !isJson(contentType)) return bytes;
  try {
    return JSON.parse((isGzip(headers) ? gunzip(bytes, MOST_BYTES) : bytes).toString('utf8')) as unknown;
  } catch {
    return bytes;
  }
}
