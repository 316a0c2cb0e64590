import type { OutboxMessage } from '../../outbox-message.js';
import type { Ledger } from '../ledger.js';
import type { TransportRelayOptions } from '../transport-parts.js';
import type { PutOffFor } from '../publish/destinations.js';
import type { Failure } from '../publish/batch.types.js';
import type { Outcome } from './decide.js';
import type { Transition } from './settler.js';

/** What follows from a result. Data: the relay does it, in this order. */
export type Effect =
  /** That it waits, or is dead, is to be written. */
  | { readonly do: 'park'; readonly transition: Transition }
  /** A ready row was given up without blame: it is read again, in order. */
  | { readonly do: 'reread'; readonly message: OutboxMessage }
  /** What is parked of its key, or its own row, can go on: the store is asked for it. */
  | { readonly do: 'continue'; readonly message: OutboxMessage }
  /** In a global order: all wait until the store says that nothing blocks. */
  | { readonly do: 'hold' }
  /** Its failure may be an outage of the transport. */
  | { readonly do: 'fail'; readonly failure: Failure; readonly message?: OutboxMessage };

type RetryOrDead = Exclude<Outcome, { kind: 'release' }>;
type Why = Pick<Transition, 'error' | 'progress' | 'putOffFor'>;

/** What a result does to the message, to its key and to those that wait behind it. Knows the ledger; the verdict is `decide`'s. */
export class Results {
  constructor(
    private readonly ledger: Ledger,
    private readonly ordering: TransportRelayOptions['ordering'],
  ) {}

  /**
   * It failed. It is dead, or waits for its next try; nobody's failure leaves it where it is.
   * @param failure with whom it is charged to
   */
  failed(message: OutboxMessage, outcome: Outcome, failure: Failure): readonly Effect[] {
    const { ledger } = this;
    if (outcome.kind !== 'release') return this.wait(message, outcome, whyFailed(failure));
    if (outcome.alone && !ledger.flight.onlyOne) {
      ledger.trial.markAlone(message);
      ledger.putBack(message);
      return NOTHING;
    }
    return [...this.release([message, ...ledger.queues.cut(message)]), { do: 'fail', failure, message }];
  }

  /** It goes to what takes nothing now, or is paused: it waits without a try, unless it is too old for that. */
  putOff(message: OutboxMessage, outcome: RetryOrDead, away: PutOffFor): readonly Effect[] {
    return this.wait(message, outcome, whyPutOff(outcome, away));
  }

  /** It waits for its next try, or is dead. Where its key waits for it, so does what came behind it. */
  private wait(message: OutboxMessage, outcome: RetryOrDead, why: Why): readonly Effect[] {
    const blocks = this.isOrdered(message) && (outcome.kind === 'retry' || outcome.blocks);
    const behind = blocks ? this.ledger.queues.cut(message) : [];
    const barred = blocks ? [] : this.ledger.queues.resolve(message);
    const own = park(transitionTo(message, outcome, blocks, why));
    if (blocks && this.ordering === 'global') return [own, { do: 'hold' }, ...this.release(behind)];
    return [...(barred.length > 0 ? this.barred(barred) : NOTHING), own, ...behind.map(parkBehind)];
  }

  /** It failed after its lease was lost: whoever has it now decides. If that is us, others may have published it, and more, in between. */
  lost(message: OutboxMessage, isOurs: boolean, failure: Failure): readonly Effect[] {
    const effects = this.withdrawn(message, isOurs);
    return failure.blame === 'transport' ? [...effects, { do: 'fail', failure }] : effects;
  }

  /** Gives messages back without charging anybody: ready ones are read again, parked ones fall due again. */
  release(messages: readonly OutboxMessage[]): readonly Effect[] {
    return messages.map((message) => {
      const { parkedId, attempts } = message;
      if (parkedId !== null)
        return park({ message, state: 'waiting', blocks: this.isOrdered(message), attempts, delay: 0, error: null });
      this.ledger.giveUp(message);
      return { do: 'reread', message };
    });
  }

  /**
   * Was not sent after all, or its lease was lost while it was out: nobody is to blame, and if its bucket is ours it is read again.
   *
   * A parked message whose lease was lost is marked under its older epoch, by which it is taken again. To unmark it would be under today's, and
   * then it would be nobody's while a second copy, which was taken meanwhile, is on its way.
   */
  withdrawn(message: OutboxMessage, isOurs: boolean): readonly Effect[] {
    const { ledger } = this;
    const messages = [message, ...ledger.queues.cut(message)];
    const isTakenAgain = ({ state, parkedId }: OutboxMessage): boolean => state === 'leaseLost' && parkedId !== null;
    const left = isOurs ? messages.filter(isTakenAgain) : messages;
    ledger.forget(left);
    if (!isOurs) return NOTHING;
    const others = messages.filter((each) => !left.includes(each));
    return [...left.map((each) => ({ do: 'continue', message: each }) as const), ...this.release(others)];
  }

  /**
   * Something of its key is parked, so it is parked behind that. But not past messages of its key that are in memory from
   * the ready table: were those given back, it would stand before them.
   */
  behindParked(message: OutboxMessage, key: string): readonly Effect[] {
    const { ledger } = this;
    if (ledger.queues.tails.get(key)?.parkedId !== null) return [parkBehind(message)];
    ledger.accept(message);
    return NOTHING;
  }

  /**
   * A unit is through, and these stand behind the bar of its key: what was due of it waited until nothing of it was in memory, and
   * goes now; they came later. Nor is anything else
   * of the key in memory that could be given back, so that they are parked, and asked for in case that it is gone meanwhile.
   */
  barred(messages: readonly OutboxMessage[]): readonly Effect[] {
    return [...messages.map(parkBehind), { do: 'continue', message: messages[0] as OutboxMessage }];
  }

  /** Whether later messages wait for this one while it is not through. */
  private isOrdered({ key }: OutboxMessage): boolean {
    return this.ordering === 'global' || (this.ordering === 'key' && key !== null);
  }
}

/** What is written of a message by its verdict. @param blocks whether its key waits for it */
export function transitionTo(message: OutboxMessage, outcome: RetryOrDead, blocks: boolean, why: Why): Transition {
  const { kind, attempts } = outcome;
  const [state, delay] = kind === 'dead' ? (['dead', null] as const) : (['waiting', outcome.delay] as const);
  return { message, state, blocks, attempts, delay, ...why };
}

export const whyFailed = ({ text: error, progress }: Failure): Why =>
  progress === undefined ? { error } : { error, progress };

/** One that is too old to be put off is dead of what it waited for. */
export const whyPutOff = ({ kind }: RetryOrDead, away: PutOffFor): Why =>
  kind === 'dead' ? { error: away.error } : { error: away.error, putOffFor: away };

const park = (transition: Transition): Effect => ({ do: 'park', transition });

/** A ready row whose key has a blocking row waits with it. */
function parkBehind(message: OutboxMessage): Effect {
  const { attempts } = message;
  return park({ message, state: 'blocked', blocks: true, attempts, delay: null, error: null });
}

const NOTHING: readonly Effect[] = [];
