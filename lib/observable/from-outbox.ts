import { Observable } from 'rxjs';
import type { OutboxService } from '../enqueue/outbox.service.js';
import type { OutboxEventMap, OutboxEventName } from '../observe/events.js';

/**
 * The events of this name from each subscription on: `fromOutbox(outbox, 'dead').subscribe(({ id, error }) => …)`. Listens only while
 * somebody is subscribed. Never completes and never fails.
 */
export function fromOutbox<K extends OutboxEventName>(
  outbox: Pick<OutboxService, 'events'>,
  name: K,
): Observable<OutboxEventMap[K]> {
  return new Observable((subscriber) => outbox.events.on(name, (event) => subscriber.next(event)));
}
