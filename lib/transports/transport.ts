import type { MessageHeaders, MessageOptions, OutboxMessage } from '../outbox-message.js';
import type { Finding } from './diagnosis.js';

/**
 * SEAM: publishes messages to one broker connection.
 *
 * The contract (`describeTransportContract` in `nestjs-outbox/testing` checks it):
 * 1. A result `ok` means that the broker took the message, as far as `receipt` says. Nothing else may be `ok`.
 * 2. Every message of the batch gets one result, by its index: through `report` as soon as it is known, or in the
 *    array that `publish` resolves to, or both (the first counts). One without a result counts as a `transport` failure.
 * 3. After `publish` settled, after `signal` was aborted and after `timeout`, nothing of the batch is sent any more. A
 *    transport whose client resends by itself must destroy that client's connection first ("a rejected publish is dead").
 *    One that sends a batch in parts compares the time before each part: in a process that stood still, what it waited for
 *    comes before the timer that aborts, and another relay may have its lease by then.
 * 4. Order: messages of one key are sent in the order of the array. With `atomicRuns: false` a batch never holds two
 *    messages of one key.
 * 5. Concurrent `publish` calls are allowed; they never share a key.
 * 6. `publish` never throws synchronously, and its rejection is a `transport` failure of everything not reported; before the
 *    timeout, with {@link PublishFailure.suspect} `message`. With an `OutboxPermanentError` it is one message's, found singly.
 */
export interface TransportContract {
  /** What an `ok` is worth: the broker stored it, a handler finished, or it only left this process. */
  readonly receipt: 'broker' | 'handler' | 'none';
  /**
   * Whether a run of messages of one key and topic is published all or nothing, in order. Only then does a batch hold
   * more than one message of a key.
   */
  readonly atomicRuns: boolean;
  /** Limits that are checked at enqueue, before any SQL. */
  readonly limits?: TransportLimits;
}

export interface TransportLimits {
  /** Bytes of UTF-8. */
  readonly topicBytes?: number;
  readonly keyBytes?: number;
  readonly payloadBytes?: number;
  /** Bytes of all header names and values together. */
  readonly headerBytes?: number;
  /** Whether a `null` payload can be told from an empty one. Default true. */
  readonly tombstones?: boolean;
  /** Returns what is wrong with a topic, or undefined. */
  readonly checkTopic?: (topic: string) => string | undefined;
  /**
   * Returns what else is wrong with a message, or undefined: names, header counts, options. It runs in the caller's
   * transaction, for every message, after the limits above; what it says must not quote the message.
   */
  readonly check?: (message: CheckedMessage) => string | undefined;
}

/** A message at its enqueue, as far as a broker could refuse it. */
export interface CheckedMessage {
  readonly topic: string;
  readonly key: string | null;
  readonly type: string;
  readonly contentType: string;
  readonly payloadBytes: number;
  /** The caller's; without a prototype. */
  readonly headers: MessageHeaders;
  readonly options: MessageOptions;
}

/** Who caused a failure. Only `message` failures count as an attempt. */
export type Blame = 'message' | 'transport' | 'collateral';

export type PublishResult = PublishOk | PublishFailure;
export interface PublishOk {
  readonly ok: true;
}
export interface PublishFailure {
  readonly ok: false;
  readonly blame: Blame;
  readonly error: unknown;
  /**
   * Of a `transport` failure, what may be the cause instead; absent: nothing else.
   *
   * - `destination`: the broker answered, and said that this topic, partition or queue cannot take the message now. While others
   *   get through it is put off, its key behind it, without an attempt and for as long as that lasts; the circuit stays closed.
   * - `message`: the connection, or something in the broker, broke over what was on it. A message that does this alone three
   *   times, each time with another one getting through afterwards, is charged with an attempt the next time; so again after
   *   three more.
   * - `key`: the payload cannot be decrypted now, said by whoever does that before the transport. As with `destination`, and `retry.maxAge` ends it.
   * - `handler`: this process cannot handle the message now, which says nothing of the transport: the message is put off, its key
   *   behind it, without an attempt and whether others get through or not. `retry.maxAge` ends it, where it has no `retryIn`.
   */
  readonly suspect?: 'destination' | 'message' | 'key' | 'handler';
  /** With `suspect: 'key'` or `'handler'`: milliseconds after which it is worth another try. */
  readonly retryIn?: number;
  /**
   * With `suspect: 'destination'`, `key` or `handler`, or of a `message` failure that any message to the same place would have: its name, the same
   * for all messages that go there, and fit for logs and health (`exchange "shop", routing key "orders"`; `topic "orders"`;
   * `key "2026-11"`). Once others got through after its first failure, any number of messages to a suspect are put off without
   * an outage of the transport. Health says which are away.
   */
  readonly destination?: string;
  /**
   * With `suspect: 'destination'` and its name: what the broker said is true of this destination alone (there is no such
   * exchange or topic, no queue takes it, its queue is full). No number of them is an outage of the transport, and while it lasts
   * one message now and then is tried, and all others are put off without a try; the first that gets through frees them.
   * With `suspect: 'handler'` and the name of a type: this process has no handler for it.
   */
  readonly certain?: boolean;
  /** The broker will never take this message: no retry, dead at once. Only with blame `message`. */
  readonly final?: boolean;
  /**
   * What the transport wants to remember of a `message` failure until the next try: the relay stores it with the parked row and
   * hands it back as `message.progress`. Absent, or longer than {@link MAX_PROGRESS}: what is stored stays.
   */
  readonly progress?: string;
}
/** Characters that a transport may leave with a message, `PublishFailure.progress`: each read of the row brings them along. */
export const MAX_PROGRESS = 4_096;
/** The one object that says "published"; shared, so that the hot path allocates nothing. */
export const PUBLISHED: PublishOk = Object.freeze({ ok: true });

export interface PublishContext {
  /** Aborted at the deadline of the publish and at a shutdown past its timeout. */
  readonly signal: AbortSignal;
  /** Milliseconds that are left for the whole batch when `publish` is called. */
  readonly timeout: number;
  /**
   * Reports one message of the batch before the batch is through; later reports for the same index are ignored. But for an `ok`
   * after a failure, at any time: it got through all the same, and if it is dead by that failure it is settled.
   */
  report(index: number, result: PublishResult): void;
}

/** Messages that will come to a transport, as far as an event class tells. */
export interface ExpectedMessages {
  readonly topic: string;
  /** `null`: each message has its own. */
  readonly options: MessageOptions | null;
}
/** What a transport is asked about its broker. */
export interface BrokerQuestion {
  /** Name of the transport. */
  readonly transport: string;
  /** Where messages go: those of event classes, and those that wait in the tables. */
  readonly expected: readonly ExpectedMessages[];
  /** Milliseconds for which messages may wait, as far as the tables are concerned; `null`: not known. */
  readonly outage: number | null;
}

/** A destination that there is not. */
export interface MissingDestination {
  /** As {@link PublishFailure.destination} names it. */
  readonly destination: string;
  /** What is missing, and what to do. */
  readonly error: unknown;
}

export interface TransportHealth {
  readonly up: boolean;
  /** `blocked`: connected, but the broker asks to wait. */
  readonly state: 'connected' | 'connecting' | 'blocked' | 'closed';
  /** One sentence without credentials. */
  readonly detail?: string;
}

/** `blocked`: the broker asks to wait. `down`: it is gone. `up`: it is back, or listens again. */
export type TransportStateListener = (state: 'up' | 'down' | 'blocked', reason?: unknown) => void;

/** Extend this to write a transport; `publish` is all that must be there. A runtime class, so that it can be a DI token. */
export abstract class OutboxTransport implements TransportContract {
  abstract readonly receipt: 'broker' | 'handler' | 'none';
  readonly atomicRuns: boolean = false;
  /**
   * A batch holds messages of one bucket, and no two batches of a bucket are out at once: for a transport that lets the
   * broker know which relay owns the bucket. @internal
   */
  readonly perBucket?: boolean;
  /** Messages that one batch may hold at most; for transports that work on them one by one. Default: `batchSize`. */
  readonly maxBatch?: number;
  readonly limits?: TransportLimits;

  abstract publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<readonly PublishResult[] | void>;

  /**
   * Where this message goes, by the name, or the names, that {@link PublishFailure.destination} gives: its success takes them off
   * the list of those that are away. Asked only while one is. Must not throw.
   */
  destinationOf?(message: OutboxMessage): string | readonly string[];
  /**
   * Which destinations are missing, of those that are known before there is a message: asked once the transport is connected, and
   * every 30 seconds while some are, with those that messages found missing. Must make nothing, touch no connection that publishes, and give up when `signal` is aborted
   * (after `publishTimeout`). A rejection says nothing of any destination; nor does a refused right: that one is not missing.
   */
  findMissing?(expected: readonly ExpectedMessages[], signal: AbortSignal): Promise<readonly MissingDestination[]>;
  /**
   * What the broker says of itself and of the destinations, for `OutboxDoctor`: asked of a transport that is neither connected
   * nor closed. Must make nothing, over a connection of its own that it closes, and give up when `signal` is aborted. A
   * rejection means that the broker could not be asked.
   */
  diagnose?(question: BrokerQuestion, signal: AbortSignal): Promise<readonly Finding[]>;
  /**
   * Called when a relay starts, at the latest before the first publish, and again after {@link reset}. Must give up when
   * `signal` is aborted. A rejection pauses publishing, and is told by health.
   *
   * @param onState to be told, until the next `connect`, what happens to the broker between two publishes: claiming for this
   * transport then stops before a publish fails
   */
  connect?(signal: AbortSignal, onState?: TransportStateListener): Promise<void>;
  /** Destroys the connection at once, without waiting for the broker; the next `connect` builds a new one. */
  reset?(): void | Promise<void>;
  /** Ends cleanly. Bounded by the shutdown timeout. */
  close?(): Promise<void>;
  health?(): TransportHealth;
}
