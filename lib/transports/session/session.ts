import type { Finding } from '../diagnosis.js';
import type { FailureCause } from '../failure.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { BrokerQuestion, ExpectedMessages, MissingDestination, TransportLimits } from '../transport.js';

/** A message on its way, and where its answer goes. Only the first answer counts. */
export interface Send {
  readonly message: OutboxMessage;
  /** It has its answer, or nobody waits for one any more. */
  readonly isSettled: boolean;
  /** The broker has it. */
  taken(): void;
  /** The broker answered that it has not; {@link BrokerClient.judge} says whose fault that is. */
  refused(error: unknown): void;
  /** It was never sent, and never will be: the client cannot carry it. Tells nothing of those before it. */
  unsendable(error: unknown): void;
}

/**
 * SEAM: one connection to a broker. It never sends anything twice by itself, never reconnects by itself, and never throws;
 * who needs a connection after it was lost opens another one.
 */
export interface BrokerSession {
  /** Messages that may wait for their answer at the same time; what is more is kept back. */
  readonly window: number;
  /**
   * Hands messages to the client, in the order of the array, and returns at once. Each is answered in its time.
   * An answer of the broker to one means that all before it have left this process, unless {@link takeBack} is there.
   * Where this session was destroyed meanwhile, by `mayWrite` for example, nothing more is sent of the array.
   */
  send(sends: readonly Send[]): void;
  /**
   * Makes sure that these are not sent later than now. Left out: nothing less than the end of the connection can do that.
   * For clients that send each request by itself.
   */
  takeBack?(sends: readonly Send[]): void;
  /** Ends the connection at once: what the client or the socket still holds is never sent. Says nothing to anybody. */
  destroy(reason: unknown): void;
  /** Ends it cleanly. Nothing is under way. */
  close(): Promise<void>;
}

/** What happens to a session between two sends. */
export interface SessionEvents {
  /** It is gone, also before `open` gave it. Nothing after `destroy` or `close`. */
  lost(error: unknown): void;
  /** The broker asks to wait; `undefined`: no more. Nothing is sent meanwhile. */
  blocked?(reason: string | undefined): void;
  /** Asked before bytes are handed to the socket: in a process that stood still, time may be over. The session is destroyed by then. */
  mayWrite(): boolean;
}

/** Whose fault a failure is: a row of the broker's failure table, and its destination where it is about that. */
export interface Verdict extends FailureCause {
  /** As `PublishFailure.destination` has it. */
  readonly destination?: string;
  readonly certain?: boolean;
  /** Said in place of what the client threw. */
  readonly error?: unknown;
}

/** SEAM: a broker, as {@link SessionTransport} knows it. */
export interface BrokerClient {
  /** As pages have it: `NATS`. */
  readonly name: string;
  readonly limits: TransportLimits;
  /** Opens a connection, or gives up when `signal` is aborted. */
  open(signal: AbortSignal, events: SessionEvents): Promise<BrokerSession>;
  /**
   * @param error of the client, or an `OutboxError` of the transport itself: it was closed, or its time was over
   * @param message the one that was refused; absent: the connection failed, or could not be made
   */
  judge(error: unknown, message?: OutboxMessage): Verdict;
  /** Must not throw. */
  destinationOf?(message: OutboxMessage): string | readonly string[];
  findMissing?(expected: readonly ExpectedMessages[], signal: AbortSignal): Promise<readonly MissingDestination[]>;
  diagnose?(question: BrokerQuestion, signal: AbortSignal): Promise<readonly Finding[]>;
}
