import { bucketOf } from '../../lib/message/bucket-of.js';
import type { NewMessage } from '../../lib/outbox-message.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import { newMessage } from '../support/scripted.js';
import { Fate, type History } from './history.js';
import type { PlannedMessage, PlannedTransaction, PlannedWriter } from './plan.js';
import type { MemoryDatabase } from './store/memory-database.js';
import type { MemoryStore } from './store/memory-store.js';
import { MemoryTransaction } from './store/memory-transaction.js';
import type { World } from './world.js';

/** The writers: what they enqueue, and when. */
export class Workload {
  /** @internal */ running = 0;
  /** @internal */ transactions = 0;
  /** @internal */ readonly buckets: number;

  constructor(
    readonly world: World,
    readonly history: History,
    readonly database: MemoryDatabase,
    readonly store: MemoryStore,
    readonly ordering: ResolvedOptions['ordering'],
    buckets: number,
    readonly transports: ReadonlyMap<string, number>,
    /** Of each payload. */
    readonly bytes = 0,
    /** Of the message with this number; absent: one for all. */
    readonly topicOf?: (n: number) => string,
  ) {
    this.buckets = ordering === 'global' ? 1 : buckets;
  }

  get over(): boolean {
    return this.running === 0;
  }

  begin(writers: readonly PlannedWriter[]): void {
    for (const writer of writers) void this.write(writer);
  }

  /** @internal */ async write(writer: PlannedWriter): Promise<void> {
    this.running += 1;
    for (const planned of writer.transactions) {
      await this.world.pause(planned.pause);
      await this.transaction(writer, planned);
    }
    this.running -= 1;
  }

  /** @internal */ async transaction(destination: Destination, planned: PlannedTransaction): Promise<void> {
    const { world, database, history } = this;
    const number = (this.transactions += 1);
    const writer = new MemoryTransaction(database, planned.asynchronous > 0, planned.asynchronous);
    const began = world.now;
    const fates: Fate[] = [];
    for (const [index, message] of planned.messages.entries()) {
      const fate = this.fate(destination, message, { began, index, transaction: number, writer });
      fates.push(fate);
      const before = world.now;
      if (!(await this.insert(writer, this.message(destination, fate, message), message.insert))) return;
      fate.insertTook = world.now - before;
      if (!fate.scheduled) fate.seq = writer.rows.at(-1)?.seq;
      if (message.pause > 0) await world.pause(message.pause);
    }
    await world.pause(planned.hold);
    if (writer.state !== 'open') return; // the server crashed
    if (planned.rollback) writer.rollback();
    else writer.commit();
    if (!planned.rollback) for (const fate of fates) fate.committed = world.now;
    const names = fates.map(({ name }) => name).join(' ');
    if (history.traced) history.tell(`${planned.rollback ? 'rolled back' : 'committed'} ${names}`);
    await world.pause(0.05 + (number % 7) / 5); // the answer
  }

  /** @returns whether the transaction is still there */
  async insert(writer: MemoryTransaction, message: NewMessage, after: number): Promise<boolean> {
    if (writer.state === 'open' && after > 0) {
      writer.takeId();
      writer.reserved.push(this.database.takeSeq());
      await this.world.pause(after);
    }
    if (writer.state !== 'open') return false;
    await this.store.insert(writer, [message]);
    return writer.state === 'open';
  }

  /** @internal */ message({ transport }: Destination, { id, key }: Fate, planned: PlannedMessage): NewMessage {
    const { n, refused, delay } = planned;
    const payload = Buffer.from(`${n} ${refused} `.padEnd(this.bytes, '.'));
    const to = transport === undefined ? 0 : (this.transports.get(transport) as number);
    const topic = this.topicOf === undefined ? {} : { topic: this.topicOf(n) };
    const bucket = this.bucketOf(key ?? id);
    return newMessage({ id, transport: to, bucket, key, payload, contentType: 'text/plain', delay, ...topic });
  }

  /** @internal */ bucketOf(keyOrId: string): number {
    let bucket = this.known.get(keyOrId);
    if (bucket === undefined) this.known.set(keyOrId, (bucket = bucketOf(keyOrId, this.buckets)));
    return bucket;
  }
  /** @internal Hashing takes longer than all else of a message. */ readonly known = new Map<string, number>();

  /** @internal */ fate(destination: Destination, { n, delay }: PlannedMessage, place: PlaceInTransaction): Fate {
    const { key, transport = '' } = destination;
    const { began, index, transaction, writer } = place;
    const id = idOf(n);
    const gate = { global: transport, key, strict: key, none: null }[this.ordering];
    const name = `${key ?? 'no key'}#${n}`;
    const fate = new Fate(id, key, gate, name, delay !== null, began, index, transaction, writer);
    this.history.fates.set(id, fate);
    return fate;
  }
}

/** Of the message of this number. */
export const idOf = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;

type Destination = Pick<PlannedWriter, 'key' | 'transport'>;
type PlaceInTransaction = Pick<Fate, 'began' | 'index' | 'transaction' | 'writer'>;
