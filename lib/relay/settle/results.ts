import type { OutboxMessage } from '../../outbox-message.js';
import { errorText } from '../../observe/redact/error-text.js';
import type { Blame, PublishFailure } from '../../transports/transport.js';
import type { Outcome } from './decide.js';
import { outcomeOf } from './outcome-of.js';
import type { Decided, SettlerEvents, Transition, Written } from './settler.js';
import type { Reader } from '../read/reader.js';
import type { Ledger } from '../ledger.js';
import type { Settler } from './settler.js';
import type { GlobalOrderGate } from '../order/global-order-gate.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { Outage } from '../publish/outage.js';
import type { ParkedReader } from '../order/parked-reader.js';
import { tellPublished } from './tell-published.js';

/** What results change in a transport relay. */
interface ResultsRelay {
  readonly deps: TransportRelayDependencies;
  readonly open: ReadonlySet<number>;
  readonly reader: Reader;
  readonly ledger: Ledger;
  readonly parked: ParkedReader;
  readonly outage: Outage;
  readonly settler: Settler;
  readonly globalOrder: GlobalOrderGate;
  roomMade(): void;
  wanted(what: 'read' | 'parked', ms?: number): void;
}

/**
 * What follows from the result of a publish, and from the database's answer to what was written about it. The verdict is
 * `decide`'s; this puts it into the queues, the settler and the events.
 */
export class Results implements SettlerEvents {
  readonly counts = { published: 0, retried: 0, dead: 0 };
  /** Failures of the batches at hand, one entry for all that are alike. @internal */
  readonly failures = new Map<string, { blame: Blame; error: string; count: number }>();

  constructor(readonly relay: ResultsRelay) {}

  published(message: OutboxMessage): void {
    this.counts.published += 1;
    message.state = 'told';
    if (this.relay.outage.isTroubled) this.relay.outage.succeeded(message);
    this.relay.settler.succeed(message);
  }

  /** The unit that ends with it is published: its key goes on. */
  through(last: OutboxMessage): void {
    const barred = this.relay.ledger.queues.resolve(last);
    if (barred.length > 0) this.barred(barred);
  }

  failed(message: OutboxMessage, failure: PublishFailure): void {
    const { ledger } = this.relay;
    if (!this.relay.open.has(message.bucket) || message.state === 'orphan') return this.leave(message, failure);
    const { outcome, charged, error } = outcomeOf(message, failure, this.relay);
    this.note(charged.blame, error);
    if (outcome.kind !== 'release') return this.settleFailure(message, outcome, error, failure.progress);
    if (outcome.alone && !ledger.flight.onlyOne) {
      ledger.flight.markAlone(message);
      ledger.putBack(message);
      return;
    }
    const waiting = ledger.queues.cut(message);
    this.release([message, ...waiting]);
    this.relay.outage.failed(error, message, charged.suspect);
    // At once: until then the key is open, and what another read returns of it would overtake.
    this.rewind();
  }

  get someAreAway(): boolean {
    return !this.relay.outage.destinations.areThere;
  }

  /** Puts it off instead of a try, where it goes to what takes nothing now. */
  putOff(message: OutboxMessage): boolean {
    const { outage } = this.relay;
    const away = outage.isAway(message);
    if (away === undefined) return false;
    const outcome = outage.absence.untried(message, away);
    this.settleFailure(message, outcome, away.error, undefined, () => outage.absence.written(away));
    this.rewind();
    return true;
  }

  /** Was not sent after all: nobody is to blame, and if it is still ours it is read again. */
  withdrawn(message: OutboxMessage): void {
    const messages = [message, ...this.relay.ledger.queues.cut(message)];
    if (this.relay.open.has(message.bucket)) this.readAgain(messages);
    else this.relay.ledger.forget(messages);
  }

  /** @internal */ note(blame: Blame, text: string): void {
    const known = this.failures.get(`${blame} ${text}`);
    if (known !== undefined) known.count += 1;
    else this.failures.set(`${blame} ${text}`, { blame, error: text, count: 1 });
  }

  /** Says what failed since the last batch: once for all that failed alike. */
  tellFailures(): void {
    if (this.failures.size === 0) return;
    const { hooks, name } = this.relay.deps;
    for (const failure of this.failures.values()) hooks.emit('failed', { transport: name, ...failure });
    this.failures.clear();
  }

  /**
   * Its lease was lost while it was out: the new owner has read it by now, and decides. If that is us, others may have
   * published it, and more, in between.
   * @internal
   */
  leave(message: OutboxMessage, { blame, error }: PublishFailure): void {
    this.withdrawn(message);
    if (blame === 'transport') this.relay.outage.failed(errorText(error, [message]));
  }

  /**
   * A parked orphan is marked under its older epoch, by which it is taken again. To unmark it would be under today's, and
   * then it would be nobody's while a second copy, which was taken meanwhile, is on its way.
   * @internal
   */
  readAgain(messages: readonly OutboxMessage[]): void {
    const { ledger, parked } = this.relay;
    const others: OutboxMessage[] = [];
    for (const message of messages) {
      const { bucket, parkedId } = message;
      const gate = ledger.queues.gateOf(message);
      if (message.state !== 'orphan' || parkedId === null) {
        others.push(message);
        continue;
      }
      ledger.forget([message]);
      if (gate !== null) parked.continueKey(bucket, gate);
      this.relay.wanted('parked');
    }
    this.release(others);
    this.rewind();
  }

  /** Gives messages back without charging anybody: ready ones are read again, parked ones fall due again. */
  release(messages: readonly OutboxMessage[]): void {
    for (const message of messages) {
      if (message.parkedId === null) this.relay.ledger.giveUp(message);
      else
        this.park(message, 'waiting', {
          attempts: message.attempts,
          delay: 0,
          error: null,
          blocks: this.ordered(message),
        });
    }
  }

  /** What was released is forgotten; the next read returns it again, in order. */
  rewind(): void {
    const again = this.relay.ledger.takeAgain();
    if (again.length === 0) return;
    this.relay.reader.rewind(again);
    this.relay.wanted('read');
  }

  /**
   * Something of its key is parked, so it is parked behind that. But not past messages of its key that are in memory from
   * the ready table: were those given back, it would stand before them.
   */
  behindParked(message: OutboxMessage, key: string): void {
    const { ledger } = this.relay;
    if (ledger.queues.tails.get(key)?.parkedId === null) ledger.accept(message);
    else this.parkBehind(message);
  }

  /**
   * What was due of their key waited until nothing of it was in memory, and goes now; they came later. Nor is anything else
   * of the key in memory that could be given back, so that they are parked, and asked for in case that it is gone meanwhile.
   */
  barred(messages: readonly OutboxMessage[]): void {
    for (const message of messages) this.parkBehind(message);
    for (const { bucket, key } of messages.slice(0, 1)) this.relay.parked.continueKey(bucket, key as string);
    this.relay.wanted('parked');
  }

  /** A ready row whose key has a blocking row waits with it. */
  parkBehind(message: OutboxMessage): void {
    this.park(message, 'blocked', { attempts: message.attempts, delay: null, error: null, blocks: true });
  }

  // ── from the settler ────────────────────────────────────────────────────────────────────────────────────────────

  settled(messages: readonly OutboxMessage[], fence: string | undefined, readsBefore: number): void {
    const { reader, parked, ledger, deps } = this.relay;
    reader.floor.wrote(fence, readsBefore);
    ledger.settled(messages);
    let unparked = false;
    for (const message of messages) {
      if (message.parkedId === null) reader.settled(message);
      else {
        unparked = true;
        const gate = ledger.queues.gateOf(message);
        if (gate !== null) parked.continueKey(message.bucket, gate);
      }
    }
    if (unparked) this.relay.wanted('parked');
    this.relay.roomMade();
    if (reader.isOfOtherServer(readsBefore)) this.lookFor(messages);
    tellPublished(deps, messages);
  }

  transitioned(transitions: readonly Decided[], written: Written): void {
    const { fence, readsBefore, missed } = written;
    const { reader, parked, ledger, deps } = this.relay;
    reader.floor.wrote(fence, readsBefore);
    let soonest = Infinity;
    for (const transition of transitions) {
      const { message, blocks, delay, wasAside } = transition;
      // Under a later lease the row, if it is still there, was read again, and is known for that.
      const current = deps.leases.lease(deps.id, message.bucket)?.epoch === transition.epoch;
      if (message.parkedId === null && current) reader.settled(message);
      ledger.written(transition);
      parked.parked(transition);
      const gate = ledger.queues.gateOf(message);
      // Dead, and its key goes on; or what it waited behind may be gone.
      if (gate !== null && (missed || wasAside === true || (!blocks && message.parkedId !== null))) {
        parked.continueKey(message.bucket, gate);
        soonest = 0;
      }
      if (delay !== null) soonest = Math.min(soonest, delay);
      this.tell(transition);
    }
    if (soonest < Infinity) this.relay.wanted('parked', soonest);
    this.relay.roomMade();
    if (reader.isOfOtherServer(readsBefore)) this.lookFor(transitions.map(({ message }) => message));
  }

  /** They were written, and may be there all the same: who reads now asks another server, which may have lost what was written. */
  lookFor(messages: readonly OutboxMessage[]): void {
    const { reader, open } = this.relay;
    const ready = messages.filter(({ parkedId, bucket }) => parkedId === null && open.has(bucket));
    if (ready.length === 0) return;
    reader.rewind(ready);
    this.relay.wanted('read');
  }

  /** The rows are as they were; whoever has the bucket now has read them, and that may be us. */
  overtaken(transitions: readonly Decided[]): void {
    for (const transition of transitions) {
      this.relay.ledger.written(transition);
      this.relay.parked.parked(transition);
    }
    this.relay.roomMade();
  }

  failedWrite(operation: 'settle' | 'park', error: unknown, retryIn: number): void {
    this.relay.deps.hooks.emit('error', { operation, error, retryIn });
  }

  // ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** @internal */ settleFailure(
    message: OutboxMessage,
    outcome: Exclude<Outcome, { kind: 'release' }>,
    error: string,
    progress: string | undefined,
    onWritten?: () => void,
  ): void {
    const { ledger, deps } = this.relay;
    const blocks = this.ordered(message) && (outcome.kind === 'retry' || outcome.blocks);
    const waiting = blocks ? ledger.queues.cut(message) : [];
    if (!blocks) this.through(message);
    if (outcome.kind === 'dead') {
      this.counts.dead += 1;
      this.park(message, 'dead', { attempts: outcome.attempts, delay: null, error, blocks }, progress);
    } else {
      const { attempts, delay } = outcome;
      if (onWritten === undefined) this.counts.retried += 1;
      this.park(message, 'waiting', { attempts, delay, error, blocks }, progress, onWritten);
    }
    if (blocks && deps.options.ordering === 'global') {
      this.relay.globalOrder.hold();
      this.release(waiting);
    } else for (const next of waiting) this.parkBehind(next);
  }

  /** Whether later messages wait for this one while it is not through. @internal */
  ordered(message: OutboxMessage): boolean {
    const { ordering } = this.relay.deps.options;
    return ordering === 'global' || (ordering === 'key' && message.key !== null);
  }

  /** @internal */ park(
    message: OutboxMessage,
    state: Transition['state'],
    rest: Pick<Transition, 'attempts' | 'delay' | 'error' | 'blocks'>,
    progress?: string,
    onWritten?: () => void,
  ): void {
    const { ledger, parked, settler } = this.relay;
    const decided = settler.decided({
      message,
      state,
      ...rest,
      ...(progress === undefined ? {} : { progress }),
      ...(onWritten === undefined ? {} : { onWritten }),
    });
    ledger.decide(message, decided);
    parked.parking(decided);
    settler.transition(decided);
  }

  /** @internal */ tell({ message, state, attempts, delay, error, onWritten }: Transition): void {
    if (onWritten !== undefined) return onWritten();
    const { hooks, name } = this.relay.deps;
    const { id, type, topic } = message;
    if (state === 'dead') {
      hooks.emit('dead', { transport: name, id, type, topic, attempts, error: error ?? '' });
      this.relay.deps.died();
    } else if (state === 'waiting' && error !== null) {
      hooks.emit('retried', { transport: name, id, type, topic, attempts, delay: delay ?? 0, error });
    }
  }
}
