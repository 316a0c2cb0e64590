import type { OutboxMessage } from '../../outbox-message.js';
import type { Circuit } from './circuit.js';
import { isUnread, lengthOf } from '../../message/unread-payload.js';
import type { Ledger } from '../ledger.js';
import type { Batch, Unit } from './batch.types.js';
import type { LargePayloads } from './large-payloads.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

/**
 * From waiting messages to batches: fills them across keys within the bounds, and keeps at most one unresolved unit per key over
 * all batches that are out. It sends nothing, and decides nothing but whose turn it is: what may not go is put off by whoever asks.
 */
export class Batcher {
  readonly empty = { ready: false, parked: false };
  /** Of batches that are out; only kept for a transport that wants one bucket in a batch. */
  readonly bucketsOut = new Set<number>();
  private readonly runs: boolean;
  private readonly maxBatch: number;

  constructor(
    readonly deps: TransportRelayDependencies<unknown>,
    readonly ledger: Ledger,
    readonly circuit: Circuit,
    readonly payloads: LargePayloads,
    /** Whether a message of this bucket may be handed over now, as far as the bucket's lease goes. */
    readonly usable: (bucket: number) => boolean,
  ) {
    this.maxBatch = Math.min(deps.options.batchSize, deps.transport.maxBatch ?? Infinity);
    // In a global order a run would span keys, which no broker publishes all or nothing.
    this.runs = deps.transport.atomicRuns && deps.options.ordering === 'key';
  }

  /**
   * What may go now, in one batch; `undefined`: nothing may.
   * @param putOff given while some destinations take nothing: asked about each message, which is put off or goes. It is asked
   * while the batch is filled, as its answer changes whose turn is next.
   */
  next(putOff: ((message: OutboxMessage) => boolean) | undefined): Batch | undefined {
    const { room } = this;
    const batch = room > 0 ? this.fill(room, putOff) : undefined;
    if (batch !== undefined && this.deps.transport.perBucket === true) this.bucketsOut.add(bucketOf(batch));
    return batch;
  }

  /** It is through: its bucket may go again. */
  ended(batch: Batch): void {
    this.bucketsOut.delete(bucketOf(batch));
  }

  /** Messages that the next batch may hold. What works on them one by one has so many slots, whichever batches they are in. */
  private get room(): number {
    const { circuit, maxBatch } = this;
    const { batches, messages } = this.ledger.flight;
    const { batchesInFlight } = this.deps.options;
    if (circuit.allows === 'none' || this.ledger.trial.running) return 0;
    if (circuit.allows === 'one') return batches.size === 0 ? 1 : 0;
    if (!this.isOneByOne) return batches.size < batchesInFlight ? maxBatch : 0;
    return Math.min(maxBatch, batchesInFlight * maxBatch - messages);
  }

  /** Handlers; a broker's batch is one request. */ get isOneByOne(): boolean {
    return this.deps.transport.receipt === 'handler';
  }

  private fill(limit: number, putOff: ((message: OutboxMessage) => boolean) | undefined): Batch | undefined {
    const { queues, flight, trial } = this.ledger;
    const messages: OutboxMessage[] = [];
    const later: OutboxMessage[] = [];
    const usable = new Map<number, boolean>();
    let units: Batch['units'];
    let bytes = 0;
    let large = false;
    while (messages.length < limit && (messages.length === 0 || bytes < this.deps.options.batchBytes)) {
      const message = queues.shift();
      if (message === undefined) break;
      if (putOff?.(message) === true) continue;
      if (!this.mayGo(message, usable) || !this.mayJoin(message, messages)) {
        later.push(message);
        continue;
      }
      const alone = trial.goesAlone(message);
      if (alone && (messages.length > 0 || flight.batches.size > 0)) {
        // It shares no batch, and nothing else is out with it. Nobody overtakes it either: under load its turn never came.
        later.push(message);
        break;
      }
      if (isUnread(message) && units !== undefined) {
        later.push(message); // a run is published as a whole, or not: it shares no batch with what may have to stay behind
        break;
      }
      messages.push(message);
      bytes += lengthOf(message);
      large ||= isUnread(message);
      if (alone) break;
      if (this.runs && !large && message.behind !== undefined) {
        units ??= new Map();
        bytes += this.extend(message, messages, units, limit, bytes);
      }
    }
    for (const message of later.reverse()) queues.unshift(message);
    return messages.length === 0 ? undefined : { messages, units };
  }

  private mayGo(message: OutboxMessage, usable: Map<number, boolean>): boolean {
    const { bucket } = message;
    let may = usable.get(bucket);
    if (may === undefined) usable.set(bucket, (may = this.usable(bucket)));
    return may && this.payloads.mayRead(message);
  }

  private mayJoin({ bucket }: OutboxMessage, [first]: readonly OutboxMessage[]): boolean {
    if (this.deps.transport.perBucket !== true) return true;
    return first === undefined ? !this.bucketsOut.has(bucket) : first.bucket === bucket;
  }

  /** The run behind the first message of a key: same topic, within the bounds. It is linked no more, but to what follows it. */
  private extend(
    first: OutboxMessage,
    into: OutboxMessage[],
    units: Map<number, { unit: Unit; index: number }>,
    limit: number,
    size: number,
  ): number {
    const start = into.length - 1;
    let bytes = 0;
    for (let next = first.behind; next !== undefined && into.length < limit; next = next.behind) {
      bytes += lengthOf(next);
      if (next.topic !== first.topic || size + bytes > this.deps.options.batchBytes) break;
      if (isUnread(next) || this.ledger.trial.goesAlone(next) || this.ledger.queues.isBarred(next)) break;
      into.push(next);
    }
    const messages = into.slice(start);
    if (messages.length === 1) return 0;
    const unit: Unit = { messages, results: messages.map(() => undefined), left: messages.length };
    messages.forEach((message, index) => {
      units.set(start + index, { unit, index });
      if (index < messages.length - 1) message.behind = undefined;
    });
    return bytes;
  }

  /** Whose turn is to come alone is in memory or in one of these tables; when not, they went elsewhere. */
  foundNothing(where: 'ready' | 'parked', nothing: boolean): void {
    this.empty[where] = nothing;
    if (this.empty.ready && this.empty.parked) this.ledger.trial.over();
  }
}

const bucketOf = ({ messages }: Batch): number => (messages[0] as OutboxMessage).bucket;
