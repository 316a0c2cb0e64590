import { Column } from './columns.js';

/** Kinds of messages in a `c` line. */
export const PLAIN = 0;
export const LATER = 1;
/** These two and above: no broker takes it. */
export const POISON = 2;

const ROWS = 16;
const TRANSACTIONS = 2 ** 20;

/** One number for a transaction of a writer. */
export const transactionNumber = (writer: number, n: number): number => writer * TRANSACTIONS + n;
/** Of the transaction that a message is of. */
export const transactionOf = (uid: number): number => Math.floor(uid / ROWS);

/** Everything that committed, one entry for each message and transport, and what was seen of it. */
export class Ledger {
  readonly began = new Column(Float64Array);
  /** When COMMIT was called; -1 when nobody lived to tell. */
  readonly called = new Column(Float64Array, -1);
  /** When it returned; Infinity when nobody lived to tell. */
  readonly ended = new Column(Float64Array, Infinity);
  readonly firstEntry = new Column(Int32Array);

  readonly transaction = new Column(Int32Array);
  readonly index = new Column(Uint8Array);
  readonly transport = new Column(Uint8Array);
  /** -1: none. */
  readonly key = new Column(Int16Array);
  readonly kind = new Column(Uint8Array);
  /** Its place among all first sightings of the run; -1: never seen. */
  readonly first = new Column(Int32Array, -1);
  /** Of its last copy. */
  readonly seenAt = new Column(Float64Array);
  readonly seenFrom = new Column(Int32Array);
  /** 1: in a table at the end, 2: dead there. */
  readonly left = new Column(Uint8Array);
  readonly told = new Column(Uint8Array);
  /** 1: somebody emptied the table that it was in. */
  readonly taken = new Column(Uint8Array);
  readonly effects = new Column(Uint8Array);
  private readonly byWriter = new Map<number, Column<Int32Array>>();

  get entries(): number {
    return this.transaction.length;
  }

  commit(writer: number, n: number, began: number, messages: readonly (readonly number[])[]): void {
    const transaction = this.began.push(began);
    this.ended.set(transaction, Infinity);
    this.firstEntry.push(this.entries);
    this.transactionsOf(writer).set(n, transaction);
    messages.forEach(([key, transports, kind], index) => {
      for (const transport of [0, 1]) {
        if (((transports as number) & (1 << transport)) === 0) continue;
        const entry = this.transaction.push(transaction);
        this.index.set(entry, index);
        this.transport.set(entry, transport);
        this.key.set(entry, key as number);
        this.kind.set(entry, kind as number);
        this.first.set(entry, -1);
      }
    });
  }

  /** @returns whether it is there */
  committing(writer: number, n: number, time: number): boolean {
    const transaction = this.transactionsOf(writer).get(n);
    if (transaction >= 0) this.called.set(transaction, time);
    return transaction >= 0;
  }

  /** @returns whether it is there */
  committed(writer: number, n: number, time: number): boolean {
    const transaction = this.transactionsOf(writer).get(n);
    if (transaction >= 0) this.ended.set(transaction, time);
    return transaction >= 0;
  }

  /** The entry, or -1: no such message committed for this transport. */
  find(uid: number, transport: number): number {
    const index = uid % ROWS;
    const n = Math.floor(uid / ROWS) % TRANSACTIONS;
    const transaction = this.byWriter.get(Math.floor(uid / ROWS / TRANSACTIONS))?.get(n) ?? -1;
    if (transaction < 0) return -1;
    const end = transaction + 1 < this.firstEntry.length ? this.firstEntry.get(transaction + 1) : this.entries;
    for (let entry = this.firstEntry.get(transaction); entry < end; entry += 1) {
      if (this.index.get(entry) === index && this.transport.get(entry) === transport) return entry;
    }
    return -1;
  }

  beganOf(entry: number): number {
    return this.began.get(this.transaction.get(entry));
  }
  /** Its COMMIT was called then, or later. */
  calledOf(entry: number): number {
    return Math.max(this.called.get(this.transaction.get(entry)), this.beganOf(entry));
  }
  endedOf(entry: number): number {
    return this.ended.get(this.transaction.get(entry));
  }
  text(entry: number): string {
    const began = this.beganOf(entry);
    return `message ${this.index.get(entry)} of the transaction begun at ${began}, key ${this.key.get(entry)}, transport ${this.transport.get(entry)}`;
  }

  private transactionsOf(writer: number): Column<Int32Array> {
    let column = this.byWriter.get(writer);
    if (column === undefined) this.byWriter.set(writer, (column = new Column(Int32Array, -1)));
    return column;
  }
}
