import type { OutboxMessage } from '../../outbox-message.js';

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
  /** Gate key → first message behind its bar, once there is one. Only while the key has a chain. */
  readonly bars = new Map<string, OutboxMessage | undefined>();
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
    if (this.bars.size > 0 && this.bars.has(gate) && this.bars.get(gate) === undefined) this.bars.set(gate, message);
  }

  /**
   * What is accepted of this key from now on does not become ready: else a chain that never ends would keep those in the
   * parked table waiting for ever. Behind a parked message no ready row is accepted anyway.
   */
  bar(gate: string): void {
    if (this.tails.get(gate)?.parkedId === null && !this.bars.has(gate)) this.bars.set(gate, undefined);
  }

  /** Whether it stands behind the bar of its key, the first one that does. */
  isBarred(message: OutboxMessage): boolean {
    return this.bars.size > 0 && this.bars.get(this.gateOf(message) as string) === message;
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
   * @returns what was accepted behind the bar of its key, in order: it is not here any more
   */
  resolve(last: OutboxMessage): readonly OutboxMessage[] {
    const gate = this.gateOf(last);
    if (gate === null) return NONE;
    const { behind } = last;
    if (behind !== undefined && !this.isBarred(behind)) {
      last.behind = undefined;
      this.ready.push(behind);
      return NONE;
    }
    if (behind === undefined && this.tails.get(gate) !== last) return NONE;
    this.tails.delete(gate);
    return this.bars.delete(gate) ? chainBehind(last) : NONE;
  }

  /** The unit that ends with `last` failed: its key is closed here; returns what waited behind it, in order. */
  cut(last: OutboxMessage): OutboxMessage[] {
    const gate = this.gateOf(last);
    if (gate === null) return [];
    this.tails.delete(gate);
    this.bars.delete(gate);
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
    this.bars.delete(gate);
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

const NONE: readonly OutboxMessage[] = [];

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

/** Of each key the first one. */
export function firstOfEach(messages: readonly OutboxMessage[], gateOf: GateOf): readonly OutboxMessage[] {
  const seen = new Set<string>();
  return messages.filter((message) => {
    const gate = gateOf(message);
    return gate === null || (!seen.has(gate) && seen.add(gate));
  });
}
