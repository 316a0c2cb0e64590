import type { Deadline } from '../deadline.js';
import { timedOut } from '../kafkajs/blame.js';
import type { KafkaProducer } from './producer.js';

/** A place for one producer. Concurrent batches go through different slots, so that one failure does not touch another. */
export interface KafkaSlot {
  readonly open: () => KafkaProducer;
  producer: KafkaProducer | undefined;
}
type Wake = (slot: KafkaSlot | undefined) => void;

/** Hands out slots, the last used first, so that a light load keeps to one connection; first come, first served. */
export class KafkaSlots {
  readonly all: readonly KafkaSlot[];
  closed = false;
  private readonly free: KafkaSlot[];
  private readonly waiting = new Set<Wake>();
  private whenAllFree: (() => void) | undefined;

  constructor(count: number, open: (index: number) => KafkaProducer) {
    this.all = Array.from({ length: count }, (_, index) => ({ open: () => open(index), producer: undefined }));
    this.free = [...this.all].reverse();
  }

  /** `undefined` when the deadline passed or the slots were closed first. */
  async take(deadline: Deadline): Promise<KafkaSlot | undefined> {
    if (deadline.passed || this.closed) return undefined;
    return (
      this.free.pop() ??
      new Promise((resolve) => {
        let unlisten = (): void => undefined; // a deadline that has passed meanwhile wakes before it returns
        const wake: Wake = (slot) => {
          this.waiting.delete(wake);
          unlisten();
          resolve(slot);
        };
        this.waiting.add(wake);
        unlisten = deadline.onPass(() => wake(undefined));
      })
    );
  }

  /** @returns false when the deadline passed before a slot was free */
  async use(deadline: Deadline, work: (slot: KafkaSlot) => Promise<void>): Promise<boolean> {
    const slot = await this.take(deadline);
    if (slot === undefined) return false;
    try {
      await work(slot);
    } finally {
      this.give(slot);
    }
    return true;
  }

  get isFree(): boolean {
    return this.free.length > 0;
  }

  give(slot: KafkaSlot): void {
    const [next] = this.waiting;
    if (next !== undefined) return next(slot);
    this.free.push(slot);
    if (this.free.length === this.all.length) this.whenAllFree?.();
  }

  /** Turns away who waits, and resolves when every slot is back. */
  async close(): Promise<void> {
    this.closed = true;
    for (const wake of this.waiting) wake(undefined);
    if (this.free.length < this.all.length) await new Promise<void>((resolve) => (this.whenAllFree = resolve));
  }

  open(): void {
    this.closed = false;
    this.whenAllFree = undefined;
  }
}

/**
 * The slot's producer, connected, for one send. A producer whose work failed for whatever reason is ended before the failure
 * is told: part of the request may be stored, and its sequence numbers are not to be trusted.
 */
export async function withProducer(
  slot: KafkaSlot,
  deadline: Deadline,
  work: (producer: KafkaProducer) => Promise<void>,
): Promise<void> {
  if (slot.producer?.isSpent === true) await retire(slot, deadline);
  const isNew = slot.producer === undefined || slot.producer.dead;
  const producer = isNew ? (slot.producer = slot.open()) : slot.producer!;
  const release = producer.endAt(deadline);
  try {
    if (isNew) await producer.connect();
    if (deadline.passed) throw timedOut();
    await work(producer);
  } catch (error) {
    producer.kill(error);
    slot.producer = undefined;
    throw error;
  } finally {
    release();
  }
}

/** Politely, for as long as the deadline leaves. */
export async function retire(slot: KafkaSlot, deadline?: Deadline): Promise<void> {
  const { producer } = slot;
  slot.producer = undefined;
  const release = deadline && producer?.endAt(deadline);
  await producer?.close();
  release?.();
}
