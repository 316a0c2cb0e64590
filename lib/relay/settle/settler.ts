import type { Roles } from '../../store/outbox-store.js';
import type { Clock } from '../../time/clock.js';
import { lengthOf, placeOnly, withoutLargePayload } from '../../message/unread-payload.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Lease } from '../../store/lease-store.js';
import type { ReparkEntry } from '../../store/parked-store.js';
import type { ParkEntry } from '../../store/ready-store.js';
import type { PutOffFor } from '../publish/destinations.js';
import { BatchWriter } from './batch-writer.js';

/** A transition other than success. */
export interface Transition {
  readonly message: OutboxMessage;
  readonly state: 'waiting' | 'blocked' | 'dead';
  /** Whether the key's later messages wait for it. */
  readonly blocks: boolean;
  readonly attempts: number;
  /** Milliseconds until it is due; only for `waiting`. */
  readonly delay: number | null;
  readonly error: string | null;
  /** What an in-process transport has done already; see `PublishFailure.progress`. */
  readonly progress?: string;
  /** It was not tried: what it waits for may be back by the time that this is written. */
  readonly putOffFor?: PutOffFor;
}

export interface Written {
  readonly fence: string | undefined;
  readonly readsBefore: number;
  /** Some rows were gone: settled or removed by somebody else, who tells nobody that their keys can go on. */
  readonly missed: boolean;
}
/** A transition, and the lease under which it was decided: under another one it is void, also when that is ours again. */
export interface Decided extends Transition {
  /** Without its payload, where that is large or it waits for long. */
  message: OutboxMessage;
  readonly epoch: string | undefined;
  /** It could not be written for a while, in which its key did not go on. */
  wasQuarantined?: true;
}

/** What became of one write. */
export type SettlerReport =
  /** The database has it: these rows are gone, whoever holds the lease. */
  | {
      readonly kind: 'settled';
      readonly messages: readonly OutboxMessage[];
      readonly fence: string | undefined;
      readonly readsBefore: number;
    }
  /** Moved or updated; `overtaken` were not: the lease under which they were decided is gone. */
  | {
      readonly kind: 'transitioned';
      readonly transitions: readonly Decided[];
      readonly overtaken: readonly Decided[];
      readonly written: Written;
    }
  /** It is repeated. */
  | {
      readonly kind: 'failed';
      readonly operation: 'settle' | 'park';
      readonly error: unknown;
      /** Milliseconds. */
      readonly retryIn: number;
    };

/**
 * Payload bytes of one statement: it is over long before it would be cancelled, also on a slow disk. Moving and archiving
 * copy them, and deleting is not free: PostgreSQL deletes each chunk, MySQL's binary log holds what was deleted.
 */
const WRITE_BYTES = 2 ** 24;

/**
 * The one place that writes what happened to messages. Successes are written whoever holds the lease; everything else is fenced by
 * the lease's row and goes out in order. Both share one connection.
 */
export class Settler {
  readonly successes: BatchWriter<OutboxMessage>;
  readonly transitions: BatchWriter<Decided>;

  constructor(
    readonly store: Roles<'ready' | 'parked'>,
    readonly clock: Clock,
    readonly settings: {
      readonly transport: number;
      readonly owner: string;
      readonly onPublished: 'delete' | 'archive';
      readonly batch: number;
    },
    readonly leaseOf: (bucket: number) => Lease | undefined,
    /** See `Reader.headReads`. */
    readonly headReads: () => number,
    /** Told of each write when it is answered: the writers go on by themselves, and nobody waits for one message. */
    readonly reported: (report: SettlerReport) => void,
  ) {
    const bounds = { items: settings.batch, bytes: WRITE_BYTES };
    this.successes = new BatchWriter(
      clock,
      { ...bounds, bytesOf: lengthOf, orderOf: () => undefined, strip: placeOnly },
      (batch) => this.writeSuccesses(batch),
      (error, retryIn) => reported({ kind: 'failed', operation: 'settle', error, retryIn }),
    );
    this.transitions = new BatchWriter(
      clock,
      { ...bounds, bytesOf: ({ message }) => lengthOf(message), orderOf, strip },
      (batch) => this.writeTransitions(batch),
      (error, retryIn) => reported({ kind: 'failed', operation: 'park', error, retryIn }),
    );
  }

  succeed(message: OutboxMessage): void {
    this.successes.add(withoutLargePayload(message));
  }

  /** Under the lease of its bucket that is held now. */
  park(transition: Transition): Decided {
    const message = withoutLargePayload(transition.message);
    const decided = { ...transition, message, epoch: this.leaseOf(message.bucket)?.epoch };
    this.transitions.add(decided);
    return decided;
  }

  /** Whether a message of this key cannot be parked, so that those behind it wait in memory. */
  isQuarantined(bucket: number, key: string): boolean {
    return this.transitions.holds(orderIn(bucket, key));
  }

  /** The leases of these buckets are gone: the next owner reads what could not be written. @returns it, which is void */
  forget(buckets: ReadonlySet<number>): readonly Decided[] {
    return this.transitions.drop(({ message }) => buckets.has(message.bucket));
  }

  /** Resolves, whatever happens to them, when the writes that are out now have been answered; `undefined`: none is out. */
  get writing(): Promise<unknown> | undefined {
    const out = [this.successes.writing, this.transitions.writing].filter((write) => write !== undefined);
    return out.length === 0 ? undefined : Promise.allSettled(out);
  }

  /** What is not written yet, and the database must hear of before it can say what blocks. */
  get size(): number {
    return this.successes.waiting.length - this.successes.quarantined + this.transitions.waiting.length;
  }

  /** How many are quarantined. */
  get unwritable(): number {
    return this.successes.quarantined + this.transitions.quarantined;
  }

  /** But for what is quarantined. */
  async quiet(): Promise<void> {
    await this.successes.quiet();
    await this.transitions.quiet();
  }

  stop(): void {
    this.successes.stop();
    this.transitions.stop();
  }

  private async writeSuccesses(batch: readonly OutboxMessage[]): Promise<void> {
    const { transport, onPublished } = this.settings;
    const readsBefore = this.headReads();
    const { fence } = await this.store.ready.settle(transport, batch, onPublished);
    this.reported({ kind: 'settled', messages: batch, fence, readsBefore });
  }

  private async writeTransitions(batch: readonly Decided[]): Promise<void> {
    const { owner } = this.settings;
    const leases = this.leasesOf(batch);
    const readsBefore = this.headReads();
    const isOurs = ({ message, epoch }: Decided): boolean =>
      epoch !== undefined && leases.get(message.bucket)?.epoch === epoch;
    const ours = batch.filter(isOurs);
    const overtaken = batch.filter((each) => !isOurs(each));
    const fromReady = ours.filter(({ message }) => message.parkedId === null);
    const fromParked = ours.filter(({ message }) => message.parkedId !== null);
    let fence: string | undefined;
    let affected = 0;
    if (fromReady.length > 0) {
      const report = await this.store.ready.park(owner, [...leases.values()], fromReady.map(parkEntry));
      fence = report.fence;
      affected += report.affected;
    }
    if (fromParked.length > 0) {
      const report = await this.store.parked.repark(owner, [...leases.values()], fromParked.map(reparkEntry));
      fence = report.fence ?? fence;
      affected += report.affected;
    }
    const written = { fence, readsBefore, missed: affected < ours.length };
    this.reported({ kind: 'transitioned', transitions: ours, overtaken, written });
  }

  private leasesOf(batch: readonly Decided[]): Map<number, Lease> {
    const leases = new Map<number, Lease>();
    for (const { message } of batch) {
      const { bucket } = message;
      const lease = leases.has(bucket) ? undefined : this.leaseOf(bucket);
      if (lease !== undefined) leases.set(bucket, lease);
    }
    return leases;
  }
}

/** The move of a ready row to the parked table. */
export function parkEntry({ message: { bucket, seq, id }, ...transition }: Transition): ParkEntry {
  return { bucket, seq, id, ...columns(transition) };
}

/** The new state of a row of the parked table. */
export function reparkEntry({ message, ...transition }: Transition): ReparkEntry {
  const { bucket, parkedId, attempts: attemptsBefore } = message;
  return { bucket, parkedId: parkedId as string, attemptsBefore, ...columns(transition) };
}

function columns({ state, blocks, attempts, delay, error, progress }: Omit<Transition, 'message'>) {
  return { state, blocks, attempts, delay, error, ...(progress !== undefined && { progress }) };
}

/** It failed, and is tried again: neither put off without a try, nor given back. */
export const isRetry = ({ state, error, putOffFor }: Transition): boolean =>
  state === 'waiting' && error !== null && putOffFor === undefined;

/** A message is parked behind the earlier ones of its key; one that is parked already keeps its place. */
function orderOf({ message, blocks }: Decided): string | undefined {
  return blocks && message.parkedId === null ? orderIn(message.bucket, message.key ?? '') : undefined;
}
const strip = (item: Decided): Decided =>
  Object.assign(item, { message: placeOnly(item.message), wasQuarantined: true as const });
const orderIn = (bucket: number, key: string): string => `${bucket} ${key}`;
