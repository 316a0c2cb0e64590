import type { Roles } from '../../store/outbox-store.js';
import type { Lease } from '../../store/lease-store.js';
import type { Reader } from '../read/reader.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import type { PauseGate } from '../pauses/gate.js';
import type { Outage } from '../publish/outage.js';

/** What stands still. */
interface Still {
  readonly deps: TransportRelayDependencies<Roles<'leases'>>;
  readonly reader: Reader;
  readonly outage: Outage;
  readonly gate: Pick<PauseGate, 'isClosed'>;
}

/**
 * While a circuit is open, or a pause lasts, and nothing that is ready is in memory, the leases say so, and `cancel` may delete what is ready: nobody
 * sends it. Before anything is read they say so no longer; a deletion that went by it is over then. Never at once with a read.
 */
export class Standstill {
  /** Bucket → the epoch under which that was said. @internal */
  told = new Map<number, string>();
  /** What was said before, and taken back. @internal */
  ended = new Map<number, string>();
  /** Where it was taken back. @internal */
  session: number | undefined;
  /** Monotonic ms. @internal */
  notBefore = -Infinity;

  constructor(readonly relay: Still) {}

  async begin(): Promise<void> {
    const { reader, deps, outage, gate } = this.relay;
    const { state } = outage.circuit;
    if ((state !== 'open' && state !== 'blocked' && !gate.isClosed) || deps.clock.monotonic() < this.notBefore) return;
    if (reader.known.size > 0) return; // waits, is out, or has a receipt that is not written
    const leases = this.held((epoch, bucket) => this.told.get(bucket) !== epoch);
    if (leases.length === 0) return;
    for (const { bucket, epoch } of leases) this.told.set(bucket, epoch);
    try {
      await deps.store.leases.noteIdle(deps.leases.owner, leases, true);
    } catch (error) {
      // It may arrive later than the word that takes it back; not under another epoch.
      this.notBefore = deps.clock.monotonic() + PAUSE;
      const buckets = leases.map(({ bucket }) => bucket);
      deps.leases.changeEpoch(deps.id, buckets);
      deps.hooks.emit('error', { operation: 'lease', error, retryIn: PAUSE });
    }
  }

  /** Nothing is read before it resolves. */
  async end(): Promise<void> {
    const { reader, deps } = this.relay;
    const { session } = reader;
    // Another server, perhaps, which never heard that it was taken back.
    if (session !== this.session) this.told = new Map([...this.ended, ...this.told]);
    if (this.told.size > 0) {
      const leases = this.held((epoch, bucket) => this.told.get(bucket) === epoch);
      await deps.store.leases.noteIdle(deps.leases.owner, leases, false);
      this.ended = this.told;
      this.told = new Map();
    }
    this.session = session;
  }

  /** @internal */ held(which: (epoch: string, bucket: number) => boolean): Lease[] {
    const { leases, id } = this.relay.deps;
    return [...leases.of(id)].flatMap(([bucket, { epoch }]) =>
      which(epoch, bucket) ? [{ transport: id, bucket, epoch }] : [],
    );
  }
}

/** Milliseconds. */
const PAUSE = 30_000;
