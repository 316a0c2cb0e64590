import { Ledger } from '../../lib/relay/ledger.js';
import { RunResults, type RunEnd } from '../../lib/relay/publish/run-results.js';
import type { Batch, Result, Failure, Unit } from '../../lib/relay/publish/batch.types.js';
import { decide } from '../../lib/relay/settle/decide.js';
import { Results, type Effect } from '../../lib/relay/settle/results.js';
import type { Decided, Transition } from '../../lib/relay/settle/settler.js';
import { closes } from '../../lib/relay/settle/unwritten.js';
import { OutboxMessage } from '../../lib/outbox-message.js';
import type { RetryPolicy } from '../../lib/outbox.options.js';
import { PUBLISHED } from '../../lib/transports/transport.js';

interface Row {
  readonly bucket: number;
  readonly key: string | null;
  readonly seq: string;
  where: 'ready' | 'parked' | 'gone';
  /** Marked as being sent under this epoch. */
  epoch: string | null;
  /** A broker has it. */
  wasPublished: boolean;
  /** Falls due at any time, and stands in no order until then. */
  readonly isScheduled: boolean;
}
/** A batch that is out. */
interface Sent {
  readonly batch: Batch;
  /** Indexes of the results that are still to come. */
  readonly left: number[];
}

const KEYS = ['a', 'a', 'b', null];
const bucketOf = (key: string | null): number => (key === 'a' ? 0 : 1);
const failure = (blame: Failure['blame']): Failure => ({ ok: false, blame, error: 'no', text: 'no' });
const [REFUSED, KILLED, AWAY] = [failure('message'), failure('collateral'), failure('transport')];
const POLICY: RetryPolicy = {
  ...{ initial: 1, max: 1, min: 1, backoff: 'exponential', jitter: 'full' },
  ...{ maxAttempts: null, maxAge: null, onDead: 'skip', errorHistory: 0, classify: undefined },
};
/** A row that was in the parked table, or whose key it closes: written twice, it would be taken for another. */
const isGuarded = (each: Decided): boolean =>
  each.message.parkedId !== null || (each.message.key !== null && closes(each));

/**
 * One history of a ledger and of what decides about its messages: a table of a few rows in an array, a broker that answers as
 * chance has it, writes that come when they come. No clock, no promise, no database: a history takes some 30 µs.
 */
export class LedgerHistory {
  readonly ledger = new Ledger(({ key }) => key);
  readonly rows: Row[] = [];
  readonly open = new Set([0, 1]);
  readonly epochs = [1, 1];
  /** What the relay knows of the parked table. */
  readonly blocked = new Set<string>();
  /** Batches that are out, with the results that are still to come. */
  readonly out: Sent[] = [];
  /** Of what is out: the epoch that it was sent under. */
  readonly sentUnder = new Map<OutboxMessage, number>();
  successes: OutboxMessage[] = [];
  transitions: Decided[] = [];
  /** Writes that took effect, and whose answers are on their way. */
  settling: OutboxMessage[] = [];
  parking: Decided[] = [];
  /** Of the random numbers. */
  state: number;
  readonly results: Results;
  readonly runs: RunResults;

  constructor(
    seed: number,
    /** What happened in one history at least. */
    readonly met: Set<string>,
  ) {
    this.state = Math.imul(seed, 0x9e3779b1);
    this.results = new Results(this.ledger, 'key');
    this.runs = new RunResults(this.ledger);
  }

  play(): void {
    for (let step = 0; step < 18; step += 1) {
      this.step();
      this.check();
    }
    this.finish();
  }

  /** 0 ≤ x < n, by xorshift. */
  below(n: number): number {
    this.state ^= this.state << 13;
    this.state ^= this.state >>> 17;
    this.state ^= this.state << 5;
    return (this.state >>> 0) % n;
  }

  step(): void {
    const chance = this.below(32);
    if (chance < 6) this.insert();
    else if (chance < 10) this.read(1 + this.below(4));
    else if (chance < 13) this.take(1 + this.below(2));
    else if (chance < 17) this.send(1 + this.below(3));
    else if (chance < 23) this.tell();
    else if (chance < 25) this.settle();
    else if (chance < 28) this.park();
    else if (chance < 29) this.giveUpWaiting();
    else if (chance < 30) this.lose(this.below(2));
    else for (const bucket of [0, 1]) this.open.add(bucket);
  }

  insert(): void {
    const key = KEYS[this.below(KEYS.length)] as string | null;
    const seq = String(this.rows.length + 1);
    const isScheduled = this.below(6) === 0;
    const where = isScheduled ? 'parked' : 'ready';
    this.rows.push({ bucket: bucketOf(key), key, seq, where, epoch: null, wasPublished: false, isScheduled });
  }

  read(limit: number): void {
    const messages: OutboxMessage[] = [];
    for (const row of this.rows) {
      if (messages.length >= limit) break;
      if (row.where !== 'ready' || !this.open.has(row.bucket)) continue;
      const message = messageOf(row);
      if (!this.ledger.known.isNew(message)) continue;
      this.ledger.known.add(message);
      messages.push(message);
    }
    this.ledger.enter(messages);
    for (const message of messages) {
      const { key } = message;
      if (key !== null && this.blocked.has(key)) {
        this.meet('behind a parked one');
        this.run(this.results.behindParked(message, key));
      } else this.ledger.accept(message);
    }
  }

  /** Parked rows whose turn it is. */
  take(limit: number): void {
    const { rows, ledger } = this;
    for (const key of KEYS.slice(1)) {
      const bucket = bucketOf(key);
      const epoch = this.lease(bucket)?.epoch;
      if (epoch === undefined) continue;
      const parked = rows.filter((row) => row.where === 'parked' && row.key === key);
      if (key !== null && parked.length > 0) this.blocked.add(key);
      if (key !== null && !ledger.isFree(key)) {
        if (parked.length > 0) ledger.queues.bar(key);
        continue;
      }
      const free = parked.filter((row) => row.epoch !== epoch && !ledger.unwritten.rows.has(row.seq));
      if (key !== null && parked.length === 0 && !ledger.unwritten.pending.has(key)) this.blocked.delete(key);
      for (const row of free.slice(0, limit)) {
        this.meet('taken');
        if (this.parking.some((each) => each.message.seq === row.seq && isGuarded(each)))
          throw new Error(`${row.seq} is taken before its failure is known to be written`);
        row.epoch = epoch;
        const message = messageOf(row);
        ledger.enter([message]);
        ledger.accept(message);
      }
    }
  }

  send(limit: number): void {
    const { queues } = this.ledger;
    const messages: OutboxMessage[] = [];
    const units: NonNullable<Batch['units']> = new Map();
    while (messages.length < limit) {
      const message = queues.shift();
      if (message === undefined) break;
      const run = [message];
      if (this.below(2) === 0) {
        for (let next = message.behind; next !== undefined && !queues.isBarred(next); next = next.behind)
          run.push(next);
      }
      if (run.length > 1) {
        this.meet('run');
        const unit: Unit = { messages: run, results: run.map(() => undefined), left: run.length };
        run.forEach((each, index) => {
          units.set(messages.length + index, { unit, index });
          if (index < run.length - 1) each.behind = undefined;
        });
      }
      for (const each of run) this.checkTurn(each, run);
      messages.push(...run);
    }
    if (messages.length === 0) return;
    const batch = { messages, units };
    this.ledger.begin(batch);
    for (const each of messages) this.sentUnder.set(each, this.epochs[each.bucket] as number);
    this.out.push({ batch, left: messages.map((_, index) => index) });
  }

  /** One result comes, or a batch that could not be completed is withdrawn. */
  tell(result = this.result()): void {
    const at = this.below(Math.max(1, this.out.length));
    const one = this.out[at];
    if (one === undefined) return;
    const { batch, left } = one;
    const [index] = left.splice(this.below(left.length), 1) as [number];
    const message = batch.messages[index] as OutboxMessage;
    if (result.ok) this.row(message).wasPublished = true;
    if (message.state === 'leaseLost') this.meet(result.ok ? 'orphan is published' : 'orphan fails');
    this.ledger.flight.answered();
    const part = batch.units?.get(index);
    if (part === undefined) {
      this.resolve(message, result);
      this.sentUnder.delete(message);
    } else {
      if (!result.ok) this.meet('run breaks');
      this.resolveRun(part.unit, this.runs.answered(part.unit, part.index, result));
      if (part.unit.left === 0) for (const each of part.unit.messages) this.sentUnder.delete(each);
    }
    if (left.length > 0) return;
    this.ledger.flight.end(batch);
    this.out.splice(at, 1);
  }

  result(): Result {
    return [PUBLISHED, PUBLISHED, PUBLISHED, REFUSED, KILLED, AWAY][this.below(6)] as Result;
  }

  resolveRun({ messages }: Unit, end: RunEnd): void {
    if (end === 'open') return;
    for (const message of end === 'through' ? messages : end.published) this.published(message);
    if (end === 'through') this.through(messages.at(-1) as OutboxMessage);
    else this.resolve(end.failed, end.failure);
  }

  resolve(message: OutboxMessage, result: Result): void {
    this.ledger.trial.clear(message);
    if (result.ok) {
      this.published(message);
      const { length } = this.transitions;
      this.through(message);
      if (this.transitions.length > length) this.meet('barred');
    } else {
      const isOurs = this.open.has(message.bucket);
      if (!isOurs || message.state === 'leaseLost') this.run(this.results.lost(message, isOurs, result));
      else this.run(this.results.failed(message, decide(message, result, POLICY, 0, 0.5), result));
      if (message.state === 'waiting') this.meet('alone');
    }
  }

  published(message: OutboxMessage): void {
    message.state = 'idle';
    this.successes.push(message);
  }

  through(last: OutboxMessage): void {
    const barred = this.ledger.queues.resolve(last);
    if (barred.length > 0) this.run(this.results.barred(barred));
  }

  /** Here what is given up is read again by the next read. */
  run(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.do === 'reread') {
        this.ledger.known.delete(effect.message);
        this.meet('again');
      }
      if (effect.do === 'fail') this.giveUpWaiting();
      if (effect.do !== 'park') continue;
      const { message } = effect.transition;
      const decided = this.decided(effect.transition);
      this.ledger.decide(message, decided);
      if (message.key !== null) this.blocked.add(message.key);
      this.transitions.push(decided);
    }
  }

  /** The answer to a write: of a row that was read again under another lease nothing is forgotten. */
  written(transitions: readonly Decided[]): void {
    for (const transition of transitions) {
      const { message, epoch } = transition;
      if (message.parkedId === null && this.lease(message.bucket)?.epoch === epoch) this.ledger.known.delete(message);
      this.ledger.written(transition);
    }
  }

  /** Published ones are gone, whoever has the lease; the answer comes later. */
  settle(): void {
    if (this.settling.length > 0) {
      this.ledger.settled(this.settling);
      for (const message of this.settling.splice(0)) this.ledger.known.delete(message);
      return;
    }
    this.settling = this.successes.splice(0);
    for (const message of this.settling) this.row(message).where = 'gone';
  }

  decided(transition: Transition): Decided {
    const { message } = transition;
    const epoch = this.sentUnder.get(message);
    if (epoch !== undefined && epoch !== this.epochs[message.bucket])
      throw new Error(`of ${message.seq} was decided what went out under another lease`);
    return { ...transition, epoch: this.lease(message.bucket)?.epoch };
  }

  /** In their order; under another lease nothing is written. The answer comes later. */
  park(): void {
    if (this.parking.length > 0) return this.written(this.parking.splice(0));
    const decided = this.transitions.splice(0, 1 + this.below(3));
    const ours = decided.filter(
      ({ message, epoch }) => epoch !== undefined && this.lease(message.bucket)?.epoch === epoch,
    );
    for (const { message, epoch } of ours) {
      const row = this.row(message);
      if (row.where === 'gone' || (message.parkedId !== null && row.epoch !== epoch)) continue;
      Object.assign(row, { where: 'parked', epoch: null });
    }
    this.parking = ours;
    if (ours.length < decided.length) this.meet('void');
    for (const each of decided) if (!ours.includes(each)) this.ledger.written(each);
  }

  giveUpWaiting(): void {
    this.run(this.results.release(this.ledger.withdraw(() => true)));
  }

  /** The keys that are blocked are read anew with the next lease. */
  lose(bucket: number): void {
    if (!this.open.delete(bucket)) return;
    this.meet('lost');
    const { queues, flight } = this.ledger;
    this.ledger.lose(new Set([bucket]));
    const left = [
      ...queues.ready,
      ...[...flight.batches].flatMap(({ messages }) => messages.map(({ behind }) => behind)),
    ];
    const waits = left.find((message) => message?.bucket === bucket);
    if (waits !== undefined) throw new Error(`${waits.seq} waits without a lease`);
    this.epochs[bucket] = (this.epochs[bucket] as number) + 1;
    for (const { key, where } of this.rows) if (key !== null && where === 'parked') this.blocked.add(key);
  }

  /** All that is left gets through, and nothing stays in memory. */
  finish(): void {
    for (const bucket of [0, 1]) this.open.add(bucket);
    for (let round = 0; round < 200; round += 1) {
      while (this.out.length > 0) this.tell(PUBLISHED);
      while (this.successes.length + this.settling.length > 0) this.settle();
      while (this.transitions.length + this.parking.length > 0) this.park();
      // A second copy of what an orphan published may wait still.
      if (
        this.rows.every(({ where }) => where === 'gone') &&
        this.ledger.queues.ready.length === this.ledger.queues.readyFrom
      )
        break;
      // What an orphan left marked under the present epoch is nobody's: a new one takes it again.
      if (round % 8 === 7) for (const bucket of [0, 1]) this.renew(bucket);
      this.read(100);
      this.take(100);
      this.send(100);
    }
    const left = this.rows.filter(({ where }) => where !== 'gone');
    if (left.length > 0) throw new Error(`${left.map(({ seq, where }) => `${seq} is ${where}`).join(', ')} for ever`);
    const { known, queues, flight, unwritten, held } = this.ledger;
    const sizes = {
      held,
      known: known.size,
      keys: queues.tails.size + queues.bars.size,
      ready: queues.ready.length - queues.readyFrom,
      out: flight.batches.size + flight.messages,
      unwritten: unwritten.all.size + unwritten.pending.size + unwritten.closed.size + unwritten.rows.size,
    };
    for (const [name, size] of Object.entries(sizes)) if (size !== 0) throw new Error(`${size} ${name} are left`);
  }

  renew(bucket: number): void {
    this.lose(bucket);
    this.open.add(bucket);
  }

  /** Nothing of its key is out beside it, and nothing that came earlier is left behind. */
  checkTurn(message: OutboxMessage, run: readonly OutboxMessage[]): void {
    const { key, bucket, seq } = message;
    if (!this.open.has(bucket)) throw new Error(`${seq} goes without a lease`);
    const { isScheduled } = this.row(message);
    if (key === null) return;
    for (const { batch } of this.out) {
      const other = batch.messages.find(
        (each) => each.key === key && (each.state === 'out' || each.state === 'leaseLost'),
      );
      if (other !== undefined) throw new Error(`${seq} goes while ${other.seq} is out`);
    }
    for (const row of this.rows) {
      if (Number(row.seq) >= Number(seq)) break;
      if (isScheduled || row.isScheduled) continue;
      if (row.key === key && !row.wasPublished && !run.some((each) => each.seq === row.seq))
        throw new Error(`${seq} overtakes ${row.seq}`);
    }
  }

  check(): void {
    const { held, flight, known } = this.ledger;
    if (held < 0 || flight.messages < 0) throw new Error(`holds ${held}, ${flight.messages} are out`);
    let out = 0;
    for (const { left } of this.out) out += left.length;
    if (out !== flight.messages) throw new Error(`${flight.messages} are out, not ${out}`);
    if (known.size > this.rows.length) throw new Error(`${known.size} rows are known`);
  }

  lease(bucket: number): { readonly epoch: string } | undefined {
    return this.open.has(bucket) ? { epoch: String(this.epochs[bucket]) } : undefined;
  }

  row({ seq }: OutboxMessage): Row {
    return this.rows[Number(seq) - 1] as Row;
  }

  meet(what: string): void {
    this.met.add(what);
  }
}

function messageOf({ bucket, key, seq, where }: Row): OutboxMessage {
  const isParked = where === 'parked';
  return new OutboxMessage({
    bucket,
    seq,
    id: seq,
    topic: 't',
    key,
    type: 't',
    version: 1,
    contentType: 'application/json',
    headersJson: null,
    optionsJson: null,
    body: null,
    createdText: '2026-01-01 00:00:00+00',
    attempts: 0,
    parkedId: isParked ? seq : null,
    parkedState: isParked ? 'waiting' : null,
  });
}
