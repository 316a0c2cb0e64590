import type { Roles } from '../../store/outbox-store.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { counted } from '../../observe/plural.js';
import type { PublishFailure } from '../../transports/transport.js';
import type { Acquired } from '../../store/lease-store.js';
import { pause } from '../../time/clock.js';
import { timeOfOne, type TransportRelayDependencies } from '../relay.types.js';

/** May go; not now, and nobody is to blame; or what became of it while somebody else had it. */
export type Verdict = 'go' | 'later' | PublishFailure;

/**
 * A message that kills the process which publishes it leaves no result behind, only a lease that runs out. Where that
 * happened to owner after owner of a bucket, its messages go one by one, and which one is written into the lease's row
 * before it goes. When the lease runs out again, whoever takes it charges that message with it, as with any other failure.
 * An owner that lost the database, and lives, looks the same from there.
 */
export class PoisonDetector {
  /** A message is on trial: nothing else of this relay is out. */
  running = false;
  /** @internal Buckets that were suspected when they were taken. */
  readonly suspects = new Set<number>();
  /** @internal By bucket: the message with which its former owner disappeared. */
  readonly left = new Map<number, string>();
  /** @internal By bucket: the last message that this process tried, and survived. */
  readonly survived = new Map<number, string>();

  constructor(readonly relay: TransportRelayDependencies<Roles<'leases'>>) {}

  gained(leases: readonly Acquired[]): void {
    const { leases: held, id, name, hooks } = this.relay;
    let suspected = 0;
    for (const { bucket, trial } of leases) {
      this.left.delete(bucket);
      if (!held.suspected(id, bucket)) continue;
      suspected += 1;
      this.suspects.add(bucket);
      if (trial !== null && this.survived.get(bucket) !== trial) this.left.set(bucket, trial);
    }
    if (suspected > 0) hooks.emit('warning', { text: suspicion(suspected, name) });
  }

  /** Whether a message of this bucket goes by itself. */
  needed(bucket: number): boolean {
    if (this.suspects.size === 0 || !this.suspects.has(bucket)) return false;
    const { leases, id } = this.relay;
    if (leases.suspected(id, bucket)) return true;
    this.suspects.delete(bucket);
    return false;
  }

  async begin({ bucket, id }: OutboxMessage): Promise<Verdict> {
    const isConvicted = this.left.get(bucket) === id;
    if (!(await this.note(bucket, isConvicted ? null : id))) return 'later';
    if (isConvicted) {
      this.left.delete(bucket);
      return { ok: false, blame: 'message', error: new Error(DIED) };
    }
    this.survived.set(bucket, id);
    if (this.relay.leases.usable(this.relay.id, bucket, timeOfOne(this.relay.options))) return 'go';
    await this.note(bucket, null);
    return 'later';
  }

  /** There is a result, and it will be tried again: should the process end now, it was not by this message. */
  async end({ bucket }: OutboxMessage): Promise<void> {
    await this.note(bucket, null);
  }

  /** @internal */ async note(bucket: number, message: string | null): Promise<boolean> {
    const { leases, store, id, hooks, clock } = this.relay;
    const lease = leases.lease(id, bucket);
    if (lease === undefined) return false;
    try {
      if (await store.leases.noteTrial(leases.owner, lease, message)) return true;
    } catch (error) {
      hooks.emit('error', { operation: 'lease', error, retryIn: PAUSE });
    }
    await pause(clock, PAUSE); // it would be read again at once
    return false;
  }
}

const DIED = 'The process that published this message, and nothing else, ended before there was a result.';
/** Milliseconds. */
const PAUSE = 200;

function suspicion(buckets: number, transport: string): string {
  return (
    `Owner after owner of ${counted(buckets, 'bucket')} of transport "${transport}" disappeared while it published. ` +
    'Until a lease has lasted, their messages go one by one; the one that does it is charged with an attempt each time.'
  );
}
