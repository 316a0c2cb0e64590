import type { OutboxMessage } from '../../outbox-message.js';
import type { Deadline } from '../deadline.js';
import type { PublishResult } from '../transport.js';
import type { Send } from './session.js';

/** One message of one publish, from the call to its answer. */
export class FlightSend implements Send {
  /** Its number among those that the session was given; 0: it waits for room. */
  place = 0;
  isSettled = false;

  constructor(
    readonly message: OutboxMessage,
    readonly deadline: Deadline,
    private readonly onEnd: (send: FlightSend, end: End) => void,
    readonly index: number,
  ) {}

  taken(): void {
    this.end({ isAnswer: true });
  }
  refused(error: unknown): void {
    this.end({ isAnswer: true, error: error ?? new Error('The client gave no reason.') });
  }
  unsendable(error: unknown): void {
    this.end({ isAnswer: false, error: error ?? new Error('The client gave no reason.') });
  }
  settle(result: PublishResult): void {
    this.end({ isAnswer: false, result });
  }

  private end(end: End): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.onEnd(this, end);
  }
}

/** How a send ended. */
export interface End {
  /** The broker said so, and this process does not only assume it. */
  readonly isAnswer: boolean;
  readonly error?: unknown;
  /** Absent: by `error`. */
  readonly result?: PublishResult;
}

/** What waits for room in a session, and what waits for its answer: by the order in which it was given. */
export class Window {
  readonly waiting: FlightSend[] = [];
  readonly inFlight = new Set<FlightSend>();
  private given = 0;
  /** The last one that was answered, by its number. */
  private answered = 0;

  /** Takes what has room; what has no time left stays where its deadline finds it. */
  take(room: number): FlightSend[] {
    const taken: FlightSend[] = [];
    while (this.waiting.length > 0 && this.inFlight.size < room) {
      const send = this.waiting.shift()!;
      if (send.isSettled || send.deadline.passed) continue;
      send.place = this.given += 1;
      this.inFlight.add(send);
      taken.push(send);
    }
    return taken;
  }

  landed(send: FlightSend, { isAnswer }: End): void {
    this.inFlight.delete(send);
    if (isAnswer) this.answered = Math.max(this.answered, send.place);
  }

  /** What ended while it waited is kept no longer. */
  sweep(): void {
    const left = this.waiting.filter((send) => !send.isSettled);
    if (left.length < this.waiting.length) this.waiting.splice(0, Infinity, ...left);
  }

  /** Whether the answer to a later one shows that this one has left the process. */
  hasLeft(send: FlightSend): boolean {
    return send.place < this.answered;
  }

  /** A new session has answered nothing. */
  clear(): FlightSend[] {
    const all = [...this.inFlight];
    this.inFlight.clear();
    this.answered = this.given;
    return all;
  }
}
