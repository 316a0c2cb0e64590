import type { Socket } from 'node:net';
import { systemClock } from '../../time/clock.js';
import { askBeforeWrites } from '../ask-before-writes.js';
import { cutSocket } from '../cut-socket.js';

/** Milliseconds that a server has for its first answer. */
const SILENT_AFTER = 3_000;
const MOMENT = 10;

/** What is heard of the server of one socket. */
export interface FirstAnswer {
  answered(): void;
  silent(text: string): void;
  closed(): void;
}

/**
 * Destroys a new socket whose server takes the connection and does not answer the first request. kafkajs asks the next of
 * `brokers` after an error of the socket, and after nothing else.
 */
export function leaveIfSilent(socket: Socket, server: string, on: FirstAnswer): void {
  let ended = false;
  let cancel: (() => void) | undefined;
  const look = (): void => {
    if (ended) return;
    const text = `Kafka's server ${server} takes connections and answers nothing`;
    on.silent(text);
    cutSocket(socket, Object.assign(new Error(text), { code: 'ETIMEDOUT' }));
  };
  // After a stand-still the timer comes before an answer that waits in the socket.
  const late = (): void => void (cancel = systemClock.after(MOMENT, look));
  const stopAsking = askBeforeWrites(socket, () => {
    if (!ended) cancel ??= systemClock.after(SILENT_AFTER, late);
    return true;
  });
  const end = (heard: () => void) => (): void => {
    ended = true;
    cancel?.();
    stopAsking();
    heard();
  };
  socket.once(
    'data',
    end(() => on.answered()),
  );
  socket.once(
    'close',
    end(() => on.closed()),
  );
}
