import type { Roles } from '../../store/outbox-store.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { counted } from '../../observe/plural.js';
import type { Acquired } from '../../store/lease-store.js';
import { pause } from '../../time/clock.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { ToldFailure } from './batch.types.js';
import type { InFlight } from './in-flight.js';

/** May go; not now, and nobody is to blame; or what became of it while somebody else had it. */
export type Verdict = 'go' | 'later' | ToldFailure;

/** How many of the messages that come next an owner may have had in memory when it disappeared. */
interface Memory {
  left: number;
}

/**
 * A message that kills the process which publishes it leaves no result behind, only a lease that runs out. Where that
 * happened to owner after owner of a bucket, as many messages as the last one held are suspects: they go one by one, and
 * which one is written into the lease's row before it goes. What comes after them goes together. When the lease runs out
 * with a message on trial, whoever takes it charges that message, as with any other failure, and suspects no other.
 * An owner that lost the database, and lives, looks the same from there.
 */
export class PoisonDetector {
  /** A message is on trial, or the last word about one is on its way: nothing else of this relay is out. */
  running = false;
  /** The lease's row may name a message: it names none before others go together. */
  noted = false;
  /** @internal By bucket that is suspected; one for all buckets of one owner. */
  readonly memories = new Map<number, Memory>();
  /** @internal By bucket: the message with which its former owner disappeared. Charged with that, it is tried by itself again. */
  readonly left = new Map<number, { readonly id: string; charged: boolean }>();
  /** @internal By bucket: the last message that this process tried, and survived. */
  readonly survived = new Map<number, string>();

  constructor(
    readonly relay: TransportRelayDependencies<Roles<'leases'>>,
    readonly flight: Pick<InFlight, 'suspects'>,
  ) {}

  /** Whether the next owner may have to suspect what is in memory here: so it is no more than is tried by itself. */
  get isWatched(): boolean {
    return this.relay.leases.crashes(this.relay.id) >= CRASHES - 1;
  }

  gained(leases: readonly Acquired[]): void {
    const { name, hooks, options } = this.relay;
    const most = options.batchSize * options.batchesInFlight;
    const memories = new Map<string | null, Memory>();
    let suspected = 0;
    for (const { bucket, trial, former = null, crashes } of leases) {
      this.left.delete(bucket);
      this.memories.delete(bucket);
      this.noted ||= trial !== null;
      if (trial !== null && this.survived.get(bucket) !== trial) this.left.set(bucket, { id: trial, charged: false });
      if (crashes < CRASHES) continue;
      suspected += 1;
      // With one on trial nothing else was out.
      const isKnown = leases.some((other) => other.trial !== null && (other.former ?? null) === former);
      const memory = memories.get(former) ?? { left: isKnown ? 0 : most };
      memories.set(former, memory);
      this.memories.set(bucket, memory);
    }
    if (suspected > 0) hooks.emit('warning', { text: suspicion(suspected, name, most) });
  }

  /** It was read, or taken, and waits: it is a suspect if the former owner may have had it. */
  meet({ bucket, id }: OutboxMessage): void {
    if (this.memories.size + this.left.size === 0 || this.flight.suspects.has(id)) return; // asked for every message
    const memory = this.memories.get(bucket);
    if (memory !== undefined && memory.left > 0) memory.left -= 1;
    else if (this.left.get(bucket)?.id !== id) return;
    this.flight.suspects.set(id, bucket);
  }

  /** Nothing is in memory, and nothing in the tables that may go: what the former owners had is through. */
  over(): void {
    this.memories.clear();
    this.flight.suspects.clear();
  }

  isSuspect({ id }: OutboxMessage): boolean {
    return this.flight.suspects.size > 0 && this.flight.suspects.has(id);
  }

  /** @param message the first one of what goes together, or the one that goes by itself */
  async begin(message: OutboxMessage): Promise<Verdict> {
    const { bucket, id } = message;
    if (!this.isSuspect(message)) return (await this.note(bucket, null)) ? 'go' : 'later';
    const named = this.left.get(bucket);
    const isConvicted = named?.id === id && !named.charged;
    if (!(await this.note(bucket, isConvicted ? null : id))) return 'later';
    if (isConvicted) {
      named.charged = true;
      return { ok: false, blame: 'message', error: new Error(DIED), text: DIED };
    }
    this.survived.set(bucket, id);
    return 'go';
  }

  /** There is a result, and it will be tried again: should the process end now, it was not by this message. */
  async end({ bucket }: OutboxMessage): Promise<void> {
    if (this.noted) await this.note(bucket, null);
  }

  /** @internal */ async note(bucket: number, message: string | null): Promise<boolean> {
    const { leases, store, id, hooks, clock } = this.relay;
    const lease = leases.lease(id, bucket);
    if (lease === undefined) return false;
    this.noted = true;
    try {
      if (await store.leases.noteTrial(leases.owner, lease, message)) {
        this.noted = message !== null;
        return true;
      }
    } catch (error) {
      hooks.emit('error', { operation: 'lease', error, retryIn: PAUSE });
    }
    await pause(clock, PAUSE); // it would be read again at once
    return false;
  }
}

/** Leases in a row that ran out in somebody's hands: one is a machine, two are a bad day. */
const CRASHES = 3;
const DIED = 'The process that published this message, and nothing else, ended before there was a result.';
/** Milliseconds. */
const PAUSE = 200;

function suspicion(buckets: number, transport: string, most: number): string {
  return (
    `Owner after owner of ${counted(buckets, 'bucket')} of transport "${transport}" disappeared while it published. ` +
    `Messages that the last one may have had in memory are sent one by one, ${counted(most, 'message')} at most; ` +
    'the one that does it is charged an attempt each time.'
  );
}
