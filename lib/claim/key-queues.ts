import type { OutboxMessage } from '../message.js';

/** What must not overtake: the message's key, `null` for nothing, or one constant for a global order. */
export type GateOf = (message: OutboxMessage) => string | null;

/**
 * The key gate: messages that were read and wait for their turn, at most one unresolved unit per key.
 *
 * Messages of a key are linked in the order in which they were accepted. Only the first of each chain is `ready`; the
 * next becomes ready when the unit in front of it is resolved. One map entry per key and one pointer per message: this
 * is the hot path, budgeted at half a microsecond a message.
 */
export class KeyQueues {
  /** Gate key → last message of its chain, from its first message until its last is resolved. */
  readonly tails = new Map<string, OutboxMessage>();
  ready: (OutboxMessage | undefined)[] = [];
  readyFrom = 0;

  constructor(readonly gateOf: GateOf) {}

  accept(message: OutboxMessage): void {
    const gate = this.gateOf(message);
    if (gate === null) {
      this.ready.push(message);
      return;
    }
    const tail = this.tails.get(gate);
    this.tails.set(gate, message);
    if (tail === undefined) this.ready.push(message);
    else tail.behind = message;
  }

  get readyCount(): number {
    return this.ready.length - this.readyFrom;
  }

  /** Takes the next message whose turn it is; `undefined` when there is none. */
  shift(): OutboxMessage | undefined {
    const message = this.ready[this.readyFrom];
    if (message === undefined) return undefined;
    this.ready[this.readyFrom] = undefined; // what was handed over is nobody's to keep in memory
    this.readyFrom += 1;
    if (this.readyFrom === this.ready.length) {
      this.ready = [];
      this.readyFrom = 0;
    } else if (this.readyFrom >= 4096) {
      this.ready = this.ready.slice(this.readyFrom);
      this.readyFrom = 0;
    }
    return message;
  }

  /** Puts back what `shift` gave and could not be handed over. */
  unshift(message: OutboxMessage): void {
    if (this.readyFrom > 0) this.ready[--this.readyFrom] = message;
    else this.ready.unshift(message);
  }

  /** Whether a message of this key waits or is unresolved. */
  has(gate: string): boolean {
    return this.tails.has(gate);
  }

  /**
   * The unit that ends with `last` is published: the message behind it becomes ready.
   * @returns whether the key is free now
   */
  resolve(last: OutboxMessage): boolean {
    const gate = this.gateOf(last);
    if (gate === null) return true;
    const behind = last.behind;
    last.behind = undefined;
    if (behind !== undefined) {
      this.ready.push(behind);
      return false;
    }
    if (this.tails.get(gate) === last) this.tails.delete(gate);
    return true;
  }

  /** The unit that ends with `last` failed: its key is closed here; returns what waited behind it, in order. */
  cut(last: OutboxMessage): OutboxMessage[] {
    const gate = this.gateOf(last);
    if (gate === null) return [];
    this.tails.delete(gate);
    return chainBehind(last);
  }

  /** Takes a message that `accept` has just made ready out of the queue; its key stays closed. */
  withdraw(message: OutboxMessage): void {
    const at = this.ready.lastIndexOf(message);
    if (at >= this.readyFrom) this.ready.splice(at, 1);
  }

  /** What waits behind a unit that is being published is forgotten and returned; the unit keeps its key closed. */
  trim(last: OutboxMessage): OutboxMessage[] {
    const gate = this.gateOf(last);
    if (gate === null || last.behind === undefined) return [];
    this.tails.set(gate, last);
    return chainBehind(last);
  }

  /** Forgets and returns every message whose turn has not come, and for whose bucket `which` holds. */
  drop(which: (message: OutboxMessage) => boolean): OutboxMessage[] {
    const dropped: OutboxMessage[] = [];
    const kept: OutboxMessage[] = [];
    for (const message of this.ready.slice(this.readyFrom) as OutboxMessage[]) {
      if (which(message)) dropped.push(message, ...this.cut(message));
      else kept.push(message);
    }
    this.ready = kept;
    this.readyFrom = 0;
    return dropped;
  }
}

function chainBehind(message: OutboxMessage): OutboxMessage[] {
  const chain: OutboxMessage[] = [];
  let next = message.behind;
  message.behind = undefined;
  while (next !== undefined) {
    chain.push(next);
    const after: OutboxMessage | undefined = next.behind;
    next.behind = undefined;
    next = after;
  }
  return chain;
}
