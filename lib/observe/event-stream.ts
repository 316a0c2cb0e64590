import { inCleanScope } from '../time/async-scope.js';
import { isThenable } from '../message/is-thenable.js';
import type { Clock } from '../time/clock.js';
import { OutboxEvents, type OutboxEventMap, type OutboxEventName, type OutboxHooks } from './events.js';

/** Events that wait for their listeners; beyond it new ones are dropped and counted. */
const MAX_QUEUED = 10_000;
/** Events per turn of the event loop, so that listeners cannot hold up the relay's I/O. */
const BATCH = 256;

type Listener = (event: never) => unknown;
interface Queued {
  readonly name: OutboxEventName;
  readonly event: unknown;
}

/**
 * Tells listeners, later and apart from the relay: `emit` only queues, so that a listener that throws, rejects, never
 * ends or is slow cannot break or delay the stage that emitted. Order is kept. What the listener returns is not awaited.
 */
export class EventStream extends OutboxEvents implements OutboxHooks {
  dropped = 0;
  private readonly listeners = new Map<OutboxEventName, Set<Listener>>();
  private queue: Queued[] = [];
  private cancel: (() => void) | undefined;
  private closed = false;

  constructor(
    private readonly clock: Pick<Clock, 'after'>,
    private readonly onListenerError: (name: OutboxEventName, error: unknown) => void = () => {},
  ) {
    super();
  }

  on<K extends OutboxEventName>(name: K, listener: (event: OutboxEventMap[K]) => unknown): () => void {
    // A wrapper of its own per call: the same function may listen twice and leave once.
    const own: Listener = (event) => listener(event);
    let set = this.listeners.get(name);
    if (set === undefined) this.listeners.set(name, (set = new Set()));
    set.add(own);
    return () => {
      set.delete(own);
    };
  }

  once<K extends OutboxEventName>(name: K): Promise<OutboxEventMap[K]> {
    return new Promise((resolve) => {
      const off = this.on(name, (event) => {
        off();
        resolve(event);
      });
    });
  }

  has(name: OutboxEventName): boolean {
    return (this.listeners.get(name)?.size ?? 0) > 0;
  }

  emit<K extends OutboxEventName>(name: K, event: OutboxEventMap[K]): void {
    if (this.closed || !this.has(name)) return;
    if (this.queue.length >= MAX_QUEUED) {
      this.dropped++;
      return;
    }
    this.queue.push({ name, event });
    this.cancel ??= this.clock.after(0, () => this.deliver(BATCH));
  }

  /** Delivers what waits, then stays silent. */
  close(): void {
    this.cancel?.();
    this.deliver(MAX_QUEUED);
    this.closed = true;
    this.queue = [];
    this.cancel?.();
    this.listeners.clear();
  }

  private deliver(limit: number): void {
    this.cancel = undefined;
    const batch = this.queue.splice(0, limit);
    for (const { name, event } of batch) {
      for (const listener of [...(this.listeners.get(name) ?? [])]) this.call(name, listener, event);
    }
    if (this.queue.length > 0) this.cancel ??= this.clock.after(0, () => this.deliver(BATCH));
  }

  private call(name: OutboxEventName, listener: Listener, event: unknown): void {
    try {
      const result = inCleanScope(() => listener(event as never));
      if (isThenable(result)) result.then(undefined, (error: unknown) => this.complain(name, error));
    } catch (error) {
      this.complain(name, error);
    }
  }

  private complain(name: OutboxEventName, error: unknown): void {
    try {
      this.onListenerError(name, error);
    } catch {
      // Whoever reports errors of listeners must not become one.
    }
  }
}
