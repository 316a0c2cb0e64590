import type { OutboxMessage } from '../../outbox-message.js';
import type { Blame } from '../../transports/transport.js';
import type { ToldFailure } from '../publish/batch.types.js';
import type { Outcome } from './decide.js';
import { outcomeOf } from './outcome-of.js';
import type { Settler, Transition } from './settler.js';
import type { Reader } from '../read/reader.js';
import type { Ledger } from '../ledger.js';
import type { GlobalOrderGate } from '../order/global-order-gate.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { Outage } from '../publish/outage.js';
import type { ParkedReader } from '../order/parked-reader.js';
import type { WakeUps } from '../wake-ups.js';

/** What results change in a transport relay. */
interface ResultsRelay {
  readonly deps: TransportRelayDependencies<unknown>;
  readonly open: ReadonlySet<number>;
  readonly reader: Reader;
  readonly ledger: Ledger;
  readonly parked: ParkedReader;
  readonly outage: Outage;
  readonly settler: Settler;
  readonly globalOrder: GlobalOrderGate;
  readonly wakeUps: WakeUps;
}

/**
 * What follows from the result of a publish. The verdict is `decide`'s; this puts it into the queues and the settler. What follows
 * from the database's answer is `WriteReports`'.
 */
export class Results {
  readonly counts = { published: 0, retried: 0, dead: 0 };
  /** Failures of the batches at hand, one entry for all that are alike. */
  private readonly failures = new Map<
    string,
    { batch: number; blame: Blame; error: string; exampleId: string; count: number }
  >();
  /** What died of its last try, which may still end well. */
  private readonly died = new WeakSet<OutboxMessage>();

  constructor(readonly relay: ResultsRelay) {}

  published(message: OutboxMessage): void {
    this.counts.published += 1;
    message.state = 'told';
    if (this.relay.outage.isTroubled) this.relay.outage.succeeded(message);
    this.relay.settler.succeed(message);
  }

  /**
   * A call that nobody waited for any more ended well: the message is through, although it was written that it is dead. As with
   * any success the row goes, whatever an operator made of it since, and its key goes on. One that is to be tried again is left
   * to its next try.
   */
  async gotThroughLate(message: OutboxMessage): Promise<void> {
    const { settler, ledger } = this.relay;
    if (!this.died.delete(message)) return;
    await settler.transitions.quiet(); // that it is dead is told before that it is not
    this.counts.published += 1;
    ledger.enter([message]);
    settler.succeed(message);
  }

  /** The unit that ends with it is published: its key goes on. */
  through(last: OutboxMessage): void {
    const barred = this.relay.ledger.queues.resolve(last);
    if (barred.length > 0) this.barred(barred);
  }

  failed(message: OutboxMessage, failure: ToldFailure): void {
    const { ledger } = this.relay;
    if (!this.relay.open.has(message.bucket) || message.state === 'orphan') return this.leave(message, failure);
    const { outcome, charged } = outcomeOf(message, failure, this.relay);
    this.note(message, charged.blame, failure.text);
    if (outcome.kind !== 'release') return this.settleFailure(message, outcome, failure.text, failure.progress);
    if (outcome.alone && !ledger.flight.onlyOne) {
      ledger.trial.markAlone(message);
      ledger.putBack(message);
      return;
    }
    const waiting = ledger.queues.cut(message);
    this.release([message, ...waiting]);
    this.relay.outage.failed(failure.text, message, charged.suspect);
    // At once: until then the key is open, and what another read returns of it would overtake.
    this.rewind();
  }

  get someAreAway(): boolean {
    return this.relay.outage.absence.isOn;
  }

  /** Puts it off instead of a try, where it goes to what takes nothing now, or is paused. */
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

  private note({ batch, id }: OutboxMessage, blame: Blame, text: string): void {
    const alike = `${batch} ${blame} ${text}`;
    const known = this.failures.get(alike);
    if (known !== undefined) known.count += 1;
    else this.failures.set(alike, { batch, blame, error: text, exampleId: id, count: 1 });
  }

  /** Says what failed since the last batch: once for all of a batch that failed alike. */
  tellFailures(): void {
    if (this.failures.size === 0) return;
    const { hooks, name } = this.relay.deps;
    for (const failure of this.failures.values()) hooks.emit('failed', { transport: name, ...failure });
    this.failures.clear();
  }

  /**
   * Its lease was lost while it was out: the new owner has read it by now, and decides. If that is us, others may have
   * published it, and more, in between.
   */
  private leave(message: OutboxMessage, { blame, text }: ToldFailure): void {
    this.withdrawn(message);
    if (blame === 'transport') this.relay.outage.failed(text);
  }

  /**
   * A parked orphan is marked under its older epoch, by which it is taken again. To unmark it would be under today's, and
   * then it would be nobody's while a second copy, which was taken meanwhile, is on its way.
   */
  private readAgain(messages: readonly OutboxMessage[]): void {
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
      this.relay.wakeUps.parked();
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
    this.relay.wakeUps.ready();
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
    this.relay.wakeUps.parked();
  }

  /** A ready row whose key has a blocking row waits with it. */
  parkBehind(message: OutboxMessage): void {
    this.park(message, 'blocked', { attempts: message.attempts, delay: null, error: null, blocks: true });
  }

  // ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

  private settleFailure(
    message: OutboxMessage,
    outcome: Exclude<Outcome, { kind: 'release' }>,
    error: string | null,
    progress: string | undefined,
    onWritten?: () => void,
  ): void {
    const { ledger, deps } = this.relay;
    const blocks = this.ordered(message) && (outcome.kind === 'retry' || outcome.blocks);
    const waiting = blocks ? ledger.queues.cut(message) : [];
    if (!blocks) this.through(message);
    if (outcome.kind === 'dead') {
      this.counts.dead += 1;
      this.died.add(message);
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

  /** Whether later messages wait for this one while it is not through. */
  private ordered(message: OutboxMessage): boolean {
    const { ordering } = this.relay.deps.options;
    return ordering === 'global' || (ordering === 'key' && message.key !== null);
  }

  private park(
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
}
