import { randomBytes, randomUUID } from 'node:crypto';
import type { ChangeReport } from '../../admin/bulk-options.js';
import type { MessageSelection } from '../../admin/message-selection.js';
import { OperatorActions } from '../../admin/operator-actions.js';
import { bucketOf } from '../../message/bucket-of.js';
import type { NewMessage, OutboxMessage } from '../../outbox-message.js';
import type { SqlExecutor } from '../../store/executor.js';
import type { Change, StatsRequest, TransportStats } from '../../store/admin-store.js';
import type { Acquired, Lease } from '../../store/lease-store.js';
import type { OutboxStore, SchemaSettings } from '../../store/outbox-store.js';
import type { ReparkEntry } from '../../store/parked-store.js';
import type { FetchResult, ParkEntry, ReadPosition, SettledMessage, WriteReport } from '../../store/ready-store.js';
import type { ContractRunner } from '../transport-contract/harness.js';

/** A transaction of the application, on a connection of its own. */
export interface OpenTransaction {
  readonly tx: SqlExecutor;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** What the contract suite needs to know about a store. */
export interface StoreHarness {
  /** Makes a database with tables of these settings; before all tests. */
  start(): Promise<void>;
  stop(): Promise<void>;
  readonly settings: SchemaSettings;
  /** A store on these tables, as another process has it. The suite closes it. */
  open(): OutboxStore | Promise<OutboxStore>;
  begin(): Promise<OpenTransaction>;
  /** The number that the next row of the ready table gets. */
  setNextSeq(seq: string): Promise<void>;
  /** How a reader learns that nothing can appear behind it any more. */
  readonly proof: 'snapshot' | 'probe';
  /**
   * Whether transactions of one dedup key may end each other in this database: the suite runs such a one again, as its error asks.
   * Default: none does.
   */
  readonly dedupConflicts?: boolean;
  /** Whether the store has nothing of `operators` and `inspect` but what changes messages that wait. */
  readonly changesAlone?: boolean;
  /**
   * Takes what is left of these transports, by number, out of all tables: the tests that had them are over. Without it they stay,
   * and what looks at each transport takes longer from test to test.
   */
  forget?(transports: readonly number[]): Promise<void>;
}

type Asked = Required<Pick<OutboxStore, 'inspect' | 'operators'>>;

/** One suite run: two stores, as two processes have them, and transports of their own for each test. */
export class StoreRun {
  store!: OutboxStore;
  other!: OutboxStore;
  /** At {@link other}. */
  operator!: Operator;
  readonly owner = randomUUID();
  readonly runner: ContractRunner;
  /** Numbers of transports that tests have had. */
  private used: number[] = [];

  constructor(
    readonly harness: StoreHarness,
    { describe, it, beforeAll, afterAll }: ContractRunner,
  ) {
    const alone: ContractRunner['it'] = (name, body) => it(name, () => this.forgetUsed().then(body));
    this.runner = { describe, it: alone, beforeAll, afterAll };
  }

  /** All but the last: the next number is one more than the largest that is there, and none comes twice. */
  private async forgetUsed(): Promise<void> {
    const former = this.used.slice(0, -1);
    this.used = this.used.slice(-1);
    if (former.length > 0) await this.harness.forget?.(former);
  }

  /** Without an order no row holds another back. */
  get ordered(): boolean {
    return this.harness.settings.ordering !== 'none';
  }
  /** A test of what only an order promises. */
  get inOrder(): ContractRunner['it'] {
    return this.ordered ? this.runner.it : () => undefined;
  }

  /** Tests of what a store may leave out: one that has none of it is asked nothing. */
  asking(it: ContractRunner['it']): (name: string, body: (roles: Asked) => Promise<void>) => void {
    return (name, body) =>
      it(name, async () => {
        const { inspect, operators } = this.store;
        if (inspect !== undefined && operators !== undefined) await body({ inspect, operators });
      });
  }

  /** Where messages of a key belong. */
  bucketOf(key: string): number {
    const { buckets, ordering } = this.harness.settings;
    return ordering === 'global' ? 0 : bucketOf(key, buckets);
  }

  async start(): Promise<void> {
    await this.harness.start();
    this.store = await this.harness.open();
    this.other = await this.harness.open();
    this.operator = new Operator(this.other, this.harness.settings);
  }
  async stop(): Promise<void> {
    await Promise.all([this.store?.close(), this.other?.close()]);
    await this.harness.stop();
  }

  /** A transport that no other test sees, with all of its buckets leased to {@link owner} unless told otherwise. */
  async owned(options: { leased?: boolean; leaseMs?: number } = {}): Promise<OwnedTransport> {
    const name = `contract-${randomBytes(6).toString('hex')}`;
    const transport = (await this.store.setup.transports([name], 'default')).get(name) as number;
    this.used.push(transport);
    const owned = new OwnedTransport(this, name, transport);
    if (options.leased !== false) await owned.acquire(this.store, options.leaseMs ?? 60_000);
    return owned;
  }

  async committed<T>(work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
    const transaction = await this.harness.begin();
    try {
      const result = await work(transaction.tx);
      await transaction.commit();
      return result;
    } catch (error) {
      await transaction.rollback();
      throw error;
    }
  }
}

/** What an operator named: by the number of the transport, which has no name that everybody knows. */
export type Named = Omit<MessageSelection, 'transport'> & { readonly transport?: number | undefined };
export type Outcome = Pick<ChangeReport, 'done' | 'changed' | 'tooLate' | 'notFound'>;

/** Somebody who requeues, discards, cancels and releases, in the way that `OutboxService` and `OutboxAdmin` do it. */
export class Operator {
  private readonly actions: OperatorActions;

  constructor(
    readonly store: OutboxStore,
    options: Pick<SchemaSettings, 'buckets' | 'ordering'>,
  ) {
    this.actions = new OperatorActions({ store, options, numberOf: Number, changed: () => undefined });
  }

  requeue(named: Named): Promise<Outcome> {
    return this.change('requeue', named);
  }
  discard(named: Named): Promise<Outcome> {
    return this.change('discard', named);
  }
  cancel(named: Named): Promise<Outcome> {
    return this.change('cancel', named);
  }
  async release(key: string, transport?: number): Promise<number> {
    return (await this.actions.release(key, transport === undefined ? {} : { transport: String(transport) })).released;
  }

  private async change(change: Change, { transport, ...named }: Named): Promise<Outcome> {
    const selection = { ...named, ...(transport === undefined ? {} : { transport: String(transport) }) };
    const { done, changed, tooLate, notFound } = (await this.actions.change(change, selection)) as ChangeReport;
    return { done, changed, tooLate, notFound };
  }
}

/** An instance is gone, as after its shutdown. */
export const leave = (store: OutboxStore, owner: string): Promise<unknown> =>
  store.leases.beat({ owner, transports: [], info: '' }, 0);

const NOTHING = '0';

/** One transport under test. */
export class OwnedTransport {
  leases: Lease[] = [];

  constructor(
    readonly run: StoreRun,
    readonly name: string,
    readonly transport: number,
  ) {}

  get store(): OutboxStore {
    return this.run.store;
  }
  get allBuckets(): number[] {
    return Array.from({ length: this.run.harness.settings.buckets }, (_, bucket) => bucket);
  }

  async acquire(store: OutboxStore, leaseMs: number): Promise<Lease[]> {
    const { owner } = this.run;
    this.leases = await store.leases.acquire({
      owner,
      leaseMs,
      transport: this.transport,
      limit: this.allBuckets.length,
    });
    return this.leases;
  }

  message(fields: Partial<NewMessage> = {}): NewMessage {
    return {
      id: randomUUID(),
      transport: this.transport,
      bucket: 1,
      topic: 'orders',
      key: 'k',
      type: 'order.placed',
      version: 1,
      contentType: 'application/json',
      headers: null,
      options: null,
      payload: Buffer.from('{}'),
      delay: null,
      deliverAt: null,
      dedupKey: null,
      ...fields,
    };
  }

  /** Commits messages and returns their ids. */
  async insert(...fields: Partial<NewMessage>[]): Promise<string[]> {
    const messages = fields.map((field) => this.message(field));
    await this.run.committed((tx) => this.store.writer.insert(tx, messages));
    return messages.map(({ id }) => id);
  }

  /** Everything in the ready table, by place. */
  async ready(store = this.store): Promise<OutboxMessage[]> {
    const positions = this.allBuckets.map((bucket) => ({ bucket, after: NOTHING }));
    const { messages } = await store.ready.fetch({
      transport: this.transport,
      positions,
      perBucket: 100_000,
      limit: 100_000,
    });
    return messages;
  }
  async readyIds(store = this.store): Promise<string[]> {
    return (await this.ready(store)).map(({ id }) => id);
  }

  /** Parks messages of the ready table; `waiting` ones are due at once unless a delay is given. */
  async park(messages: readonly OutboxMessage[], entry: Partial<ParkEntry> = {}): Promise<WriteReport> {
    return this.store.ready.park(
      this.run.owner,
      this.leases,
      messages.map((message) => parkEntry(message, { blocks: this.run.ordered && message.key !== null, ...entry })),
    );
  }

  /** Inserts and parks one message; returns its id. */
  async parked(fields: Partial<NewMessage>, entry: Partial<ParkEntry> = {}): Promise<string> {
    const [id] = (await this.insert(fields)) as [string];
    await this.park(
      (await this.ready()).filter((message) => message.id === id),
      entry,
    );
    return id;
  }

  async due(limit = 1000): ReturnType<OutboxStore['parked']['due']> {
    return this.store.parked.due(this.transport, this.allBuckets, limit);
  }

  /** Takes what is due and goes on with these keys. */
  async take(
    keys: readonly string[] = [],
    perKey = 100,
    store = this.store,
  ): ReturnType<OutboxStore['parked']['take']> {
    const { rows } = await this.due();
    return store.parked.take({
      owner: this.run.owner,
      transport: this.transport,
      leases: this.leases,
      due: rows,
      keys: keys.map((key) => ({ bucket: 1, key })),
      perKey,
    });
  }

  /** What became of messages that were taken. @returns of how many it was written */
  async repark(
    messages: readonly OutboxMessage[],
    fields: Partial<ReparkEntry> = {},
    { owner = this.run.owner, leases = this.leases } = {},
  ): Promise<number> {
    const entries = messages.map((message) => repark(message, fields));
    return (await this.store.parked.repark(owner, leases, entries)).affected;
  }

  /** What somebody else gets of its buckets, through the other process. */
  leasedTo(
    owner: string = randomUUID(),
    fields: { limit?: number; only?: number[]; leaseMs?: number } = {},
  ): Promise<Acquired[]> {
    const { other } = this.run;
    return other.leases.acquire({ owner, transport: this.transport, leaseMs: 60_000, limit: 1000, ...fields });
  }

  async stats(request?: StatsRequest): Promise<TransportStats> {
    const all = await this.store.admin.stats(request);
    return all.find(({ transport }) => transport === this.transport) as TransportStats;
  }

  read(positions: readonly ReadPosition[], limits: { perBucket?: number; limit?: number } = {}): Promise<FetchResult> {
    return this.store.ready.fetch({ transport: this.transport, positions, perBucket: 100, limit: 100, ...limits });
  }

  settle(messages: readonly OutboxMessage[], onPublished: 'delete' | 'archive' = 'delete'): Promise<WriteReport> {
    return this.store.ready.settle(this.transport, messages.map(settled), onPublished);
  }
}

export function parkEntry(message: OutboxMessage, entry: Partial<ParkEntry> = {}): ParkEntry {
  const { id, bucket, seq, key } = message;
  return { id, bucket, seq, state: 'waiting', blocks: key !== null, attempts: 1, delay: 0, error: 'refused', ...entry };
}

export function repark(message: OutboxMessage, fields: Partial<ReparkEntry> = {}): ReparkEntry {
  const { bucket, key } = message;
  return {
    parkedId: message.parkedId as string,
    bucket,
    state: 'waiting',
    blocks: key !== null,
    attempts: 1,
    attemptsBefore: message.attempts,
    delay: 0,
    error: null,
    ...fields,
  };
}

export function settled(message: OutboxMessage): SettledMessage {
  const { id, bucket, seq, attempts, parkedId } = message;
  return { id, bucket, seq, attempts, parkedId };
}

export const idsOf = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id);

/** Polls until `probe` returns something; nothing here waits for a fixed time. */
export async function eventually<T>(what: string, probe: () => Promise<T | undefined>, timeout = 60_000): Promise<T> {
  const deadline = Date.now() + timeout;
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    if (Date.now() > deadline) throw new Error(`Not within ${timeout} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
