import type { OutboxMessage } from '../../outbox-message.js';
import type { Acquired } from '../../store/lease-store.js';
import type { Failure } from './batch.types.js';

/**
 * Which messages are published alone, as one of them may be a poison message, and which one is charged.
 *
 * One that kills its connection: what was in a batch with it is published alone. What fails alone three times, while others get
 * through in between, is charged from then on.
 * One that kills its process leaves no result, only a lease that runs out. After three unclean ends of a bucket's owners, as many
 * messages as an owner holds are published alone; after four, as many of each bucket and table. The lease's row names each before
 * it goes. Whoever finds a name there charges that message alone. An owner that lost the database, and lives, looks the same.
 */
export class Trial {
  /** A suspect is out, or the last word about one is on its way: nothing else of this relay is out. */
  running = false;
  /** The lease's row may name a message: it names none before others go together. */
  noted = false;
  /** The last one that this process tried: it lives, whatever a lease's row says of it. */
  tried: string | undefined;
  /** Failed while nothing else was out, and nothing got through since. */
  failed: { readonly id: string; readonly broke: boolean } | undefined;
  /** What may have killed its process: id → bucket. */
  readonly suspects = new Map<string, number>();
  private readonly alone = new Set<string>();
  /** Times that a message failed alone and another one got through after it; of these, times that it may have broken the connection. */
  private readonly soloFailures = new Map<string, { alone: number; broke: number }>();
  /** Buckets after unclean ends, by table, and how many of the next messages their owners may have held. */
  private readonly ready = new Map<number, { left: number }>();
  private readonly parked = new Map<number, { left: number }>();
  /** By bucket: the message with which its former owner ended. Once charged, it is published alone again. */
  private readonly named = new Map<number, { readonly id: string; charged: boolean }>();

  goesAlone({ id }: OutboxMessage): boolean {
    return this.alone.has(id) || this.suspects.has(id);
  }

  markAlone({ id }: OutboxMessage): void {
    if (this.alone.size >= MOST) this.alone.clear();
    this.alone.add(id);
  }

  /** It has a result, or is not ours any more. */
  clear({ id }: OutboxMessage): void {
    this.alone.delete(id);
    this.suspects.delete(id);
  }

  /** Nothing is in memory, and nothing in the tables that may go. */
  over(): void {
    for (const known of [this.alone, this.suspects, this.ready, this.parked]) known.clear();
  }

  /** A message that gets through changes something. */
  get isOpen(): boolean {
    return this.failed !== undefined || this.soloFailures.size > 0;
  }

  /** @param convicts whether the transport takes messages now */
  gotThrough({ id }: OutboxMessage, convicts: boolean): void {
    this.soloFailures.delete(id);
    const { failed } = this;
    if (!convicts || failed === undefined) return;
    this.failed = undefined;
    if (failed.id === id) return;
    if (this.soloFailures.size >= MOST) this.soloFailures.clear();
    const { alone, broke } = this.soloFailures.get(failed.id) ?? { alone: 0, broke: 0 };
    this.soloFailures.set(failed.id, { alone: alone + 1, broke: broke + Number(failed.broke) });
  }

  failsAlone({ id }: OutboxMessage): boolean {
    return (this.soloFailures.get(id)?.alone ?? 0) >= ENOUGH;
  }

  /** @returns whether it is charged with having broken the connection */
  convict({ id }: OutboxMessage): boolean {
    return (this.soloFailures.get(id)?.broke ?? 0) >= ENOUGH && this.soloFailures.delete(id);
  }

  /**
   * @param most messages that an owner holds
   * @returns how many of the buckets are suspected
   */
  gained(leases: readonly Acquired[], most: number): number {
    for (const { bucket, trial } of leases) {
      for (const buckets of [this.ready, this.parked]) buckets.delete(bucket);
      this.named.delete(bucket);
      this.noted ||= trial !== null;
      if (trial !== null && trial !== this.tried) this.named.set(bucket, { id: trial, charged: false });
    }
    const suspected = leases.filter(({ crashes }) => crashes >= UNCLEAN_ENDS);
    const owners = new Set(suspected.map(({ former }) => former));
    for (const { trial, former } of leases) if (trial !== null) owners.delete(former); // nothing else was out
    // What is read first may be of others: where it was none of these, each bucket and table has as many of its own.
    const all = { left: owners.size * most };
    for (const { bucket, crashes } of suspected.filter((lease) => owners.has(lease.former)))
      for (const buckets of [this.ready, this.parked])
        buckets.set(bucket, crashes > UNCLEAN_ENDS ? { left: most } : all);
    return suspected.length;
  }

  /** It was read, or taken, and waits: it is a suspect if the former owner may have held it. */
  meet({ bucket, id, parkedId }: OutboxMessage): void {
    if (this.ready.size + this.named.size === 0 || this.suspects.has(id)) return; // asked for every message
    const buckets = parkedId === null ? this.ready : this.parked;
    const count = buckets.get(bucket);
    if (count !== undefined && count.left > 0) count.left -= 1;
    else if (this.named.get(bucket)?.id !== id) return;
    this.suspects.set(id, bucket);
  }

  isSuspect({ id }: OutboxMessage): boolean {
    return this.suspects.has(id);
  }

  /** The former owner ended with it, and it is not charged with that yet. */
  isCharged({ bucket, id }: OutboxMessage): boolean {
    const named = this.named.get(bucket);
    return named?.id === id && !named.charged;
  }

  charge({ bucket, id }: OutboxMessage): Failure {
    this.named.set(bucket, { id, charged: true });
    return { ok: false, blame: 'message', error: new Error(DIED), text: DIED };
  }
}

/** Leases in a row that ran out in somebody's hands: one is a machine, two are a bad day. */
export const UNCLEAN_ENDS = 3;
/** Times: no chance. */
const ENOUGH = 3;
/** Of each list. Beyond it all is forgotten, and found once more. */
const MOST = 5_000;
const DIED = 'The process that published this message, and nothing else, ended before there was a result.';
