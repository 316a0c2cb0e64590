import type { PublishCall } from './call.js';
import type { RabbitMqDestination } from './silence.js';

type Settle = (call: PublishCall, index: number, tag: number, destination: RabbitMqDestination) => void;

/**
 * Which message a delivery tag means. Kept here and not by amqplib's callbacks: up to 1.x a `publish` that threw left its
 * callback behind, so that every later confirm of the channel was somebody else's.
 */
export class ConfirmWindow {
  /** Unconfirmed messages. */
  size = 0;
  /** by tag - base; `undefined` once confirmed */
  calls: (PublishCall | undefined)[] = [];
  private indexes: number[] = [];
  private destinations: RabbitMqDestination[] = [];
  /** tag of the first element */
  private base = 1;
  /** everything before it is confirmed */
  private head = 0;

  /** Tag of the next message that is written. */
  get next(): number {
    return this.base + this.calls.length;
  }

  /** Whether all messages with a lower tag are known to be confirmed. */
  isPast(tag: number): boolean {
    return this.base + this.head >= tag;
  }

  /** To be called once per message that was written, in order. */
  push(call: PublishCall, index: number, destination: RabbitMqDestination): void {
    this.calls.push(call);
    this.indexes.push(index);
    this.destinations.push(destination);
    this.size += 1;
  }

  confirm(tag: number, multiple: boolean, settle: Settle): void {
    const position = tag - this.base;
    if (multiple) for (let p = this.head; p < position; p++) this.take(p, settle);
    this.take(position, settle);
    this.compact();
  }

  /** Takes out those for which `which` holds. Their confirms, should they come, mean nothing here. */
  takeIf(which: (destination: RabbitMqDestination, tag: number, call: PublishCall) => boolean, settle: Settle): void {
    const taken: Parameters<Settle>[] = [];
    for (let p = this.head; p < this.calls.length; p++) {
      const call = this.calls[p];
      if (call === undefined || !which(this.destinations[p]!, this.base + p, call)) continue;
      this.take(p, (...entry) => taken.push(entry));
    }
    this.compact();
    for (const entry of taken) settle(...entry); // which may write more, or empty the window
  }

  /** Empties the window; its channel is gone, and the next one counts from 1. */
  abandon(settle: Settle): void {
    const { calls, indexes, destinations, base, head } = this;
    this.calls = [];
    this.indexes = [];
    this.destinations = [];
    this.base = 1;
    this.head = 0;
    this.size = 0;
    for (let p = head; p < calls.length; p++)
      if (calls[p] !== undefined) settle(calls[p]!, indexes[p]!, base + p, destinations[p]!);
  }

  private take(position: number, settle: Settle): void {
    const call = this.calls[position];
    if (call === undefined) return;
    this.calls[position] = undefined;
    this.size -= 1;
    settle(call, this.indexes[position]!, this.base + position, this.destinations[position]!);
  }

  private compact(): void {
    while (this.head < this.calls.length && this.calls[this.head] === undefined) this.head += 1;
    // Moving the rest down costs as much as what is left, so it is done rarely or when nothing is.
    if (this.head < 1024 && this.head < this.calls.length) return;
    this.calls.splice(0, this.head);
    this.indexes.splice(0, this.head);
    this.destinations.splice(0, this.head);
    this.base += this.head;
    this.head = 0;
  }
}
