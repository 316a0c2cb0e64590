import { setMaxListeners } from 'node:events';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Circuit } from './circuit.js';
import { isUnread, lengthOf } from '../../message/unread-payload.js';
import type { Ledger } from '../ledger.js';
import type { Publisher } from './publisher.js';
import type { PublishFailure, PublishResult } from '../../transports/transport.js';
import type { Batch, OnResult, Unit } from './batch.types.js';
import { LargePayloads } from './large-payloads.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import { RunResults } from './run-results.js';
import { PoisonDetector, type Verdict } from './poison-detector.js';

export interface BatcherEvents {
  readonly results: {
    published(message: OutboxMessage): void;
    failed(message: OutboxMessage, failure: PublishFailure): void;
    /** The unit that ends with it is published: its key goes on. */
    through(last: OutboxMessage): void;
    /** Was not sent after all. */
    withdrawn(message: OutboxMessage): void;
    /** Put off, if it goes where nothing is taken now. */
    putOff(message: OutboxMessage): boolean;
    /** Some destinations take nothing now. */
    readonly someAreAway?: boolean;
  };
  /** May this message be handed over now, as far as its bucket's lease goes? */
  usable(bucket: number): boolean;
  /** A batch ended; results and failures of all its messages were told. */
  batchEnded(): void;
}

/**
 * From waiting messages to publishes: fills batches across keys within the bounds, keeps at most one unresolved unit per
 * key over all batches in flight, and turns results into `published` and `failed`, in order within a key.
 */
export class Batcher {
  /** @internal */ readonly empty = { ready: false, parked: false };
  /** Of batches that are out; only kept for a transport that wants one bucket in a batch. @internal */
  readonly bucketsOut = new Set<number>();
  readonly poison: PoisonDetector;
  readonly payloads: LargePayloads;
  /** @internal */ readonly runs: boolean;
  /** @internal */ readonly runResults: RunResults;
  /** @internal */ readonly maxBatch: number;

  constructor(
    readonly relay: TransportRelayDependencies,
    readonly ledger: Ledger,
    readonly publisher: Publisher,
    readonly circuit: Circuit,
    readonly events: BatcherEvents,
    readonly kill: AbortSignal,
  ) {
    this.poison = new PoisonDetector(relay);
    this.payloads = new LargePayloads(relay, (message) => ledger.flight.markAlone(message));
    this.runResults = new RunResults(ledger, this);
    setMaxListeners(0, kill); // one for each batch
    this.maxBatch = Math.min(relay.options.batchSize, relay.transport.maxBatch ?? Infinity);
    // In a global order a run would span keys, which no broker publishes all or nothing.
    this.runs = relay.transport.atomicRuns && relay.options.ordering === 'key';
  }

  /** Hands over what may go now. Synchronous; called whenever something changed. */
  pump(): void {
    for (let { room } = this; room > 0; { room } = this) {
      const batch = this.fill(room);
      if (batch === undefined) return;
      void this.send(batch);
    }
  }

  /** Messages that the next batch may hold. What works on them one by one has so many slots, whichever batches they are in. @internal */
  get room(): number {
    const { circuit, maxBatch } = this;
    const { batches, messages } = this.ledger.flight;
    const { batchesInFlight } = this.relay.options;
    if (circuit.allows === 'none' || this.poison.running) return 0;
    if (circuit.allows === 'one') return batches.size === 0 ? 1 : 0;
    if (!this.isOneByOne) return batches.size < batchesInFlight ? maxBatch : 0;
    return Math.min(maxBatch, batchesInFlight * maxBatch - messages);
  }

  /** Handlers; a broker's batch is one request. @internal */ get isOneByOne(): boolean {
    return this.relay.transport.receipt === 'handler';
  }

  /** A slot is free before its batch is through. Those that get free together are filled together. @internal */
  pumpSoon(): void {
    this.cancelPump ??= this.relay.clock.after(0, () => {
      this.cancelPump = undefined;
      this.pump();
    });
  }
  /** @internal */ cancelPump: (() => void) | undefined;

  /** @internal */ fill(limit: number): Batch | undefined {
    const { queues, flight } = this.ledger;
    const messages: OutboxMessage[] = [];
    const later: OutboxMessage[] = [];
    const usable = new Map<number, boolean>();
    let units: Batch['units'];
    let bytes = 0;
    let large = false;
    const away = this.events.results.someAreAway === true;
    while (messages.length < limit && (messages.length === 0 || bytes < this.relay.options.batchBytes)) {
      const message = queues.shift();
      if (message === undefined) break;
      if (away && this.events.results.putOff(message)) continue;
      if (!this.mayGo(message, usable) || !this.mayJoin(message, messages)) {
        later.push(message);
        continue;
      }
      const alone = flight.goesAlone(message) || this.poison.needed(message.bucket);
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

  /** @internal */ mayGo(message: OutboxMessage, usable: Map<number, boolean>): boolean {
    const { bucket } = message;
    let may = usable.get(bucket);
    if (may === undefined) usable.set(bucket, (may = this.events.usable(bucket)));
    return may && this.payloads.mayRead(message);
  }

  /** @internal */ mayJoin({ bucket }: OutboxMessage, [first]: readonly OutboxMessage[]): boolean {
    if (this.relay.transport.perBucket !== true) return true;
    return first === undefined ? !this.bucketsOut.has(bucket) : first.bucket === bucket;
  }

  /** The run behind the first message of a key: same topic, within the bounds. It is linked no more, but to what follows it. @internal */
  extend(
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
      if (next.topic !== first.topic || size + bytes > this.relay.options.batchBytes) break;
      if (isUnread(next) || this.ledger.flight.goesAlone(next) || this.ledger.queues.isBarred(next)) break;
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

  /** @internal */ async send(batch: Batch): Promise<void> {
    const { flight } = this.ledger;
    const { bucket } = batch.messages[0] as OutboxMessage;
    if (this.relay.transport.perBucket === true) this.bucketsOut.add(bucket);
    this.ledger.begin(batch);
    const onResult: OnResult = (index, result) => {
      flight.told();
      const part = batch.units?.get(index);
      if (part === undefined) this.resolve(batch.messages[index] as OutboxMessage, result);
      else this.runResults.resolve(part.unit, part.index, result);
      if (this.isOneByOne) this.pumpSoon();
    };
    if (this.poison.needed(bucket)) await this.try(batch, onResult);
    else await this.deliver(batch, onResult);
    flight.end(batch);
    this.bucketsOut.delete(bucket);
    this.events.batchEnded();
  }

  /** @internal */ async deliver(batch: Batch, onResult: OnResult): Promise<void> {
    const verdict = batch.messages.some(isUnread) ? await this.complete(batch) : 'go';
    if (verdict === 'go') await this.publisher.publish(batch.messages, onResult, this.kill);
    else if (verdict === 'later') this.withdraw(batch);
    else onResult(0, verdict);
  }

  /** One message, and what it does is known even if nobody is left to tell. @internal */
  async try(batch: Batch, onResult: OnResult): Promise<void> {
    const message = batch.messages[0] as OutboxMessage;
    let published = false;
    const onVerdict: OnResult = (index, result) => {
      published = result.ok;
      onResult(index, result);
    };
    this.poison.running = true;
    let verdict = await this.poison.begin(message); // before its payload is read: that may end the process, too
    if (verdict === 'go' && message.state === 'orphan') verdict = 'later'; // its lease came back: it is read again first
    if (verdict === 'go') {
      await this.deliver(batch, onVerdict);
      if (!published) await this.poison.end(message);
    } else if (verdict === 'later') this.withdraw(batch);
    else onResult(0, verdict);
    this.poison.running = false;
  }

  /** Brings the large payloads, after which the batch may not go any more. @internal */
  async complete({ messages }: Batch): Promise<Verdict> {
    const verdict = await this.payloads.bring(messages);
    if (verdict !== 'go') return verdict;
    const may = messages.every((message) => this.events.usable(message.bucket) && message.state !== 'orphan');
    return may ? 'go' : 'later';
  }

  /** Was not sent after all, none of it. @internal */
  withdraw({ messages }: Batch): void {
    for (const message of messages) {
      this.ledger.flight.told();
      this.events.results.withdrawn(message);
    }
  }

  /** @internal */ resolve(message: OutboxMessage, result: PublishResult): void {
    this.ledger.flight.acquit(message);
    if (result.ok) {
      this.events.results.published(message);
      this.events.results.through(message);
    } else this.events.results.failed(message, result);
  }

  /** Whose turn is to come alone is in memory or in one of these tables; when not, they went elsewhere. */
  foundNothing(where: 'ready' | 'parked', nothing: boolean): void {
    this.empty[where] = nothing;
    if (this.empty.ready && this.empty.parked) this.ledger.flight.alone.clear();
  }
}
