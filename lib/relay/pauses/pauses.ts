import type { OutboxMessage } from '../../outbox-message.js';
import { isWhole, nameOfPause, type Pause } from '../../store/pauses/pause-store.js';

type OfTransport = (pauses: readonly Pause[]) => void;

/**
 * What operators have paused, as the last heartbeat said. Before the first one nobody knows, and everything counts as paused:
 * a relay publishes nothing of what was paused before it started.
 */
export class Pauses {
  list: readonly Pause[] | undefined;
  /** Transport → topic → key, of the pauses that are not of a whole transport; `null`: all of them. */
  private readonly parts = new Map<number, Map<string | null, Map<string | null, Pause>>>();
  private readonly listeners = new Map<number, OfTransport>();

  /** Told what is paused of this transport, when that has changed. */
  listen(transport: number, told: OfTransport): void {
    this.listeners.set(transport, told);
  }

  /** @param pauses `undefined`: the store has none */
  heard(pauses: readonly Pause[] = []): void {
    const before = this.list;
    this.list = pauses;
    if (textOf(before) === textOf(pauses)) return;
    this.sort(pauses);
    for (const [transport, told] of this.listeners) {
      const [was, is] = [before, pauses].map((list) => list?.filter((pause) => pause.transport === transport));
      if (textOf(was) !== textOf(is)) told(is ?? []);
    }
  }

  /** Of a relay that has stopped: what is paused by the time it starts again, nobody knows. */
  forget(): void {
    this.list = undefined;
  }

  /** The pause of a whole transport; `undefined`: none, as far as anybody knows. */
  of(transport: number): Pause | undefined {
    return this.list?.find((pause) => pause.transport === transport && isWhole(pause));
  }

  /** Whether nothing of this transport may be begun. */
  isPaused(transport: number): boolean {
    return this.list === undefined || this.of(transport) !== undefined;
  }

  /** Whether topics or keys of this transport are paused. */
  hasParts(transport: number): boolean {
    return this.parts.has(transport);
  }

  /** The pause of its topic, of its key, or of its key in its topic. */
  partOf(transport: number, { topic, key }: Pick<OutboxMessage, 'topic' | 'key'>): Pause | undefined {
    const topics = this.parts.get(transport);
    if (topics === undefined) return undefined;
    const [ofTopic, ofAll] = [topics.get(topic), topics.get(null)];
    return ofTopic?.get(null) ?? (key === null ? undefined : (ofAll?.get(key) ?? ofTopic?.get(key)));
  }

  private sort(pauses: readonly Pause[]): void {
    this.parts.clear();
    for (const pause of pauses) {
      if (isWhole(pause)) continue;
      const { transport, topic, key } = pause;
      const topics = this.parts.get(transport) ?? new Map<string | null, Map<string | null, Pause>>();
      const keys = topics.get(topic) ?? new Map<string | null, Pause>();
      this.parts.set(transport, topics.set(topic, keys.set(key, pause)));
    }
  }
}

const textOf = (pauses: readonly Pause[] | undefined): string | undefined => pauses?.map(nameOfPause).sort().join();
