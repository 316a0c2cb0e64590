import { compareSeq, type Place } from '../../lib/outbox-message.js';
import type { Snapshot } from '../../lib/store/ready-store.js';
import { FakeClock } from '../../lib/testing/index.js';

export interface Transaction {
  id: bigint;
  rows: Place[];
  state: 'open' | 'committed';
  readonly began: number;
  finished: number;
}

/** Who writes into a {@link ModelTable}. */
export class ModelTransactions {
  readonly clock = new FakeClock();
  readonly writers = new Map<number, Transaction>();
  /** When each number was given out. */
  readonly created = new Map<string, Date>();
  /** Of writers whose statement has its number and waits. */
  readonly held = new Map<number, Place & { since: number }>();
  readonly transactions: Transaction[] = [];
  nextId = 100n;
  highestFinished = 99n;
  nextSeq = 1n;
  moment = 0;

  constructor(readonly kind: 'snapshots' | 'probes') {}

  insert(writer: number, bucket: number): void {
    this.transactionFor(writer).rows.push(this.numbered(bucket));
  }

  /** A statement that has its number, and waits before it inserts the row; where snapshots tell all, that is one moment. */
  reserve(writer: number, bucket: number): void {
    if (this.kind === 'snapshots') return this.insert(writer, bucket);
    this.insertHeld(writer); // a session has one statement at a time
    this.transactionFor(writer);
    this.held.set(writer, { ...this.numbered(bucket), since: this.clock.monotonic() });
  }

  insertHeld(writer: number): void {
    const { since, ...row } = this.held.get(writer) ?? { since: undefined };
    if (since === undefined) return;
    this.held.delete(writer);
    this.writers.get(writer)?.rows.push(row as Place);
  }

  /** No statement takes 2 s: it ends before. */
  async pass(ms: number): Promise<void> {
    for (const [writer, { since }] of [...this.held])
      if (this.clock.monotonic() + ms - since >= 2_000) this.insertHeld(writer);
    await this.clock.advance(ms);
  }

  /** @internal */ numbered(bucket: number): Place {
    const seq = String(this.nextSeq++);
    this.created.set(seq, new Date(this.clock.wall()));
    return { bucket, seq };
  }

  /** @internal */ transactionFor(writer: number): Transaction {
    let transaction = this.writers.get(writer);
    if (transaction === undefined) this.writers.set(writer, (transaction = this.begin()));
    return transaction;
  }

  end(writer: number, how: 'commit' | 'rollback'): void {
    this.insertHeld(writer);
    const transaction = this.writers.get(writer);
    if (transaction === undefined) return;
    this.writers.delete(writer);
    if (how === 'rollback') transaction.rows = [];
    this.finish(transaction);
  }

  visible(): Place[] {
    const rows = this.transactions.filter(({ state }) => state === 'committed').flatMap((each) => each.rows);
    return rows.sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
  }

  /** @internal */ transactionOf(seq: string): Transaction | undefined {
    return this.transactions.find(({ rows }) => rows.some((row) => row.seq === seq));
  }
  /** @internal */ open(): Transaction[] {
    return this.transactions.filter(({ state }) => state === 'open');
  }
  /** @internal */ begin(): Transaction {
    const transaction: Transaction = {
      id: this.nextId++,
      rows: [],
      state: 'open',
      began: (this.moment += 1),
      finished: Infinity,
    };
    this.transactions.push(transaction);
    return transaction;
  }
  /** @internal */ finish(transaction: Transaction): void {
    transaction.state = 'committed';
    transaction.finished = this.moment += 1;
    if (transaction.id > this.highestFinished) this.highestFinished = transaction.id;
  }
  /** @internal */ sees(snapshot: Snapshot | undefined, seq: string): boolean {
    const id = this.transactionOf(seq)?.id;
    if (snapshot === undefined || id === undefined) return true;
    return id < BigInt(snapshot.xmax) && !snapshot.open.includes(String(id));
  }
  snapshot(): Snapshot | undefined {
    if (this.kind === 'probes') return undefined;
    const xmax = this.highestFinished + 1n;
    const open = this.open()
      .map(({ id }) => id)
      .filter((id) => id < xmax);
    return { xmin: String(open[0] ?? xmax), xmax: String(xmax), open: open.map(String) };
  }
}
