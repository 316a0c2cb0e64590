import { Inject, Injectable } from '@nestjs/common';
import { OutboxService } from '../enqueue/outbox.service.js';
import { OutboxTransactionRequiredError } from '../outbox.errors.js';

/**
 * Publishes the events of an `EventBus` of @nestjs/cqrs into the outbox, in the ambient transaction: that of `outbox.transaction`,
 * `outbox.bind` or the option `currentTransaction`. So `eventBus.publish(event)` and `aggregate.commit()` enqueue:
 *
 *     CqrsModule.forRootAsync({ inject: [OutboxService], useFactory: (outbox) => ({ eventPublisher: new OutboxEventPublisher(outbox) }) })
 *
 * Nobody awaits them, so the transaction does: its COMMIT waits for each enqueue, and is refused with `ROLLBACK_ONLY` behind one
 * that failed.
 */
@Injectable()
export class OutboxEventPublisher {
  constructor(@Inject(OutboxService) readonly outbox: OutboxService) {}

  /** The same for one event. */
  publish(event: object): Promise<string[]> {
    return this.publishAll([event]);
  }

  /**
   * @returns the ids of the messages. A rejection that nobody hears is none: the COMMIT tells it
   * @throws OutboxTransactionRequiredError at once, where there is no transaction that would wait
   */
  publishAll(events: readonly object[]): Promise<string[]> {
    const copy = [...events]; // `commit()` empties its array as soon as this returns
    if (copy.length === 0) return Promise.resolve([]);
    const { current, enqueuer } = this.outbox;
    const session = current.require(undefined);
    if (session instanceof Promise) {
      session.catch(() => undefined);
      throw unheard('Which connection it has, is asked first, and its COMMIT may come before the answer.');
    }
    const watch = session.listen();
    if (watch.held !== undefined) throw unheard('Its next statement, perhaps COMMIT, is on its way.');
    watch.demandOpen();
    const { state, written, inFlight } = watch;
    const { number } = state;
    const ids = enqueuer.write(session, copy).then((done) => done.ids);
    const told = ids.then(
      () => undefined,
      (error: unknown) => {
        if (state.number === number && !state.ended) written.spoil(error);
      },
    );
    inFlight.add(told);
    void told.then(() => inFlight.delete(told));
    return ids;
  }
}

const unheard = (why: string): OutboxTransactionRequiredError =>
  new OutboxTransactionRequiredError(`The EventBus cannot enqueue in this transaction. ${why}`, {
    hint: 'Await commitTo(outbox, aggregate, { tx }), or outbox.enqueue(event, { tx }).',
  });
