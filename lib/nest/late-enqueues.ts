import type { Clock } from '../time/clock.js';
import type { EventStream } from '../observe/event-stream.js';
import { counted } from '../observe/plural.js';

/** Milliseconds in which requests in hand may still enqueue: that is no news. */
const GRACE = 1_000;
/** Milliseconds between two warnings. */
const PAUSE = 10_000;

const WHAT_TO_DO =
  'they wait for another instance, or for the next start. Open connections may keep this process: create the application with ' +
  'forceCloseConnections: true';

/** The relay has stopped, and the application goes on: served by connections that never go idle, it may do so without end. */
export function warnOfLateEnqueues(events: EventStream, clock: Clock): void {
  let count = 0;
  let quietUntil = clock.monotonic() + GRACE;
  events.on('enqueued', ({ ids }) => {
    count += ids.length;
    const now = clock.monotonic();
    if (now < quietUntil) return;
    quietUntil = now + PAUSE;
    events.emit('warning', {
      text: `${counted(count, 'message was', 'messages were')} enqueued since the relay stopped; ${WHAT_TO_DO}`,
    });
  });
}
