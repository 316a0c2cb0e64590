import type { MessageHeaders, OutboxMessage } from '../../outbox-message.js';
import type { OutboxTransport } from '../../transports/transport.js';
import type { ContractMessageFields } from './contract-message.js';

/** One message as an independent consumer found it at the broker. */
export interface ReceivedMessage {
  /** The message id, wherever the transport puts it. */
  readonly id: string;
  /** `null`: the consumer could tell that it was a tombstone. */
  readonly payload: Uint8Array | null;
  /** Left out: the broker has no place for it. */
  readonly key?: string | null;
  /** All headers of the message; the caller's must be among them. Left out: the broker has none. */
  readonly headers?: MessageHeaders;
}

/**
 * What the contract suite needs to know about a transport. Only `create` must be there; everything that is missing
 * leaves out the checks that need it.
 */
export interface TransportHarness {
  /** Before all tests and after them. */
  start?(): Promise<void>;
  stop?(): Promise<void>;
  /** A new transport that is not connected yet. The suite closes it. */
  create(): OutboxTransport | Promise<OutboxTransport>;
  /** A topic of its own that exists and takes messages. Default: a random name. */
  createTopic?(): string | Promise<string>;
  /**
   * Everything that arrived at the topic so far, in order of arrival; waits (with a deadline of its own) until at least
   * `count` messages did. An independent client, not the transport under test.
   */
  received?(topic: string, count: number): Promise<readonly ReceivedMessage[]>;
  /** A message that the broker, or the transport, refuses because of what it is. */
  poison?(topic: string): ContractMessageFields | Promise<ContractMessageFields>;
  /** Faults between transport and broker; each is undone by `heal`, after which a new connection works. */
  faults?: {
    /** Open connections break, new ones are refused. */
    cut?(): void | Promise<void>;
    /** Connections stay open; what the transport sends never reaches the broker. */
    loseRequests?(): void | Promise<void>;
    /** Connections stay open; the broker works, but its answers never come back. */
    loseReplies?(): void | Promise<void>;
    /**
     * Of open connections nothing is read, until `heal` reads on: what is sent stays in buffers, and in the client when they
     * are full. Messages have up to 16 MB if the `limits` of the transport say so, else 900 KB.
     */
    stall?(): void | Promise<void>;
    heal(): void | Promise<void>;
  };
  /** Milliseconds that a publish gets in the tests of faults. Default 1000. */
  faultTimeout?: number;
  /** Milliseconds that a publish gets otherwise. Default 10,000. */
  timeout?: number;
}

/** The globals of Jest, Vitest (`globals: true`) and their like; others can be handed over. */
export interface ContractRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
  beforeAll(body: () => Promise<void>): unknown;
  afterAll(body: () => Promise<void>): unknown;
}

export type { ContractMessageFields, OutboxMessage };
