import { setTimeout as pause } from 'node:timers/promises';
import type { TransportOption } from 'nestjs-outbox';

/** What comes twice has the same id both times. It rejects where the message has to come again. */
export type Handle = (id: string, body: string) => Promise<void>;

export interface Broker {
  readonly transport: TransportOption;
  /** Hands on one message after the other. */
  consume(handle: Handle): Promise<void>;
  /** Ends that, and removes what `open` made. */
  close(): Promise<void>;
}

/** Makes a place for the topic `orders`. Its name begins with the prefix, which is of this run alone. */
export type Open = (url: string, prefix: string) => Promise<Broker>;

/** For a client that has to ask for messages: asks until it is ended by what this returns. */
export function asking(ask: () => Promise<void>): () => Promise<void> {
  let isOver = false;
  const loop = async (): Promise<void> => {
    while (!isOver) await ask().catch(() => pause(1_000));
  };
  const asked = loop();
  return () => ((isOver = true), asked);
}
