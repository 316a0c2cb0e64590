import type { ChangeOptions, ChangeReport, DryRun, OperatorCount } from '../admin/bulk-options.js';
import { breakLeases, checkLeaseSelection, type BrokenLeases, type LeaseSelection } from '../admin/break-leases.js';
import type { MessageSelection } from '../admin/message-selection.js';
import { OperatorActions, type ReleaseOptions, type ReleaseReport } from '../admin/operator-actions.js';
import type { OutboxEvents } from '../observe/events.js';
import type { OutboxHealth } from '../observe/health.js';
import type { OutboxStats } from '../observe/stats.js';
import { misconfigured, OutboxMessageError } from '../outbox.errors.js';
import type { OutboxTransaction, TransactionHandle } from '../outbox-data-layer.js';
import { Enqueuer, refuseForArray } from './enqueuer.js';
import type {
  AnyEvent,
  EnqueueOptions,
  EnqueueReport,
  MessageSettings,
  PlainMessage,
  ReportOption,
} from './options.js';
import { isPlainObject } from './plain-object.js';
import type { EnqueueRuntime } from './runtime.js';
import { numberOf } from './destinations.js';
import { typeName } from '../options/text-checks.js';
import { CurrentTransaction } from '../transaction/current-transaction.js';
import { checkTransaction, type OutboxTransactionOptions } from '../transaction/options.js';
import type { Session } from '../transaction/data-layer.js';
import { TransactionScope } from '../transaction/transaction-scope.js';

/** A caller's function, to which its data layer hands what it has of a transaction. */
type InTransaction<T> = (handle: object) => Promise<T>;

/** A transaction in the place of the options would be read as options without one. */
function refuseHandle(options: EnqueueOptions | undefined): void {
  if (options === undefined || isPlainObject(options)) return;
  throw new OutboxMessageError('INVALID_MESSAGE', `The options of enqueue are ${typeName(options)}.`, {
    hint: 'Pass it by its name, enqueue(message, { tx }), or use outbox.with(tx).enqueue(message).',
  });
}

/** An outbox that writes in one given transaction. */
export interface OutboxWriter<TEvent extends object = AnyEvent> {
  enqueue(messages: readonly (TEvent | PlainMessage)[], options?: MessageSettings): Promise<string[]>;
  enqueue(message: TEvent | PlainMessage, options?: MessageSettings): Promise<string>;
}

/**
 * Writes messages in the caller's database transaction, and lets operators act on those that wait.
 * @typeParam TEvent narrows what may be enqueued: `OutboxService<OrderPlaced | OrderCancelled>`
 */
export class OutboxService<TEvent extends object = AnyEvent> {
  /** @internal */ readonly current: CurrentTransaction;
  /** @internal */ readonly enqueuer: Enqueuer;
  /** @internal */ readonly actions: OperatorActions;

  constructor(/** @internal */ readonly runtime: EnqueueRuntime) {
    const { dataLayer, options, hooks, store } = runtime;
    this.current = new CurrentTransaction(dataLayer, TransactionScope.of(dataLayer), options.currentTransaction);
    this.enqueuer = new Enqueuer(runtime);
    this.actions = new OperatorActions({ store, options, numberOf, changed: (where) => runtime.workAppeared(where) });
    dataLayer.watchTransactions(
      () => this.current.scope.current(),
      (text) => hooks.emit('warning', { text }),
    );
  }

  /** Events of this outbox. Listeners can neither break nor slow it. */
  get events(): OutboxEvents {
    return this.runtime.events;
  }

  /**
   * Writes events (classes with `@OutboxEvent`) or plain messages in a transaction: `options.tx`, else the one around
   * this call. Without one it throws and writes nothing. An array is one INSERT. A buffer that is a payload must stay as it is
   * until this resolves: it is sent, not copied.
   * @returns the id of the message, or of each message of the array; with `report: true` also whether it was a duplicate
   */
  enqueue(
    messages: readonly (TEvent | PlainMessage)[],
    options: EnqueueOptions & ReportOption,
  ): Promise<EnqueueReport[]>;
  enqueue(message: TEvent | PlainMessage, options: EnqueueOptions & ReportOption): Promise<EnqueueReport>;
  enqueue(messages: readonly (TEvent | PlainMessage)[], options?: EnqueueOptions): Promise<string[]>;
  enqueue(message: TEvent | PlainMessage, options?: EnqueueOptions): Promise<string>;
  async enqueue(input: unknown, options?: EnqueueOptions & Partial<ReportOption>): Promise<unknown> {
    refuseHandle(options);
    const found = this.current.require(options?.tx === undefined ? options?.manager : options.tx);
    const session = found instanceof Promise ? await found : found;
    if (Array.isArray(input)) refuseForArray(options);
    const inputs: readonly unknown[] = Array.isArray(input) ? input : [input];
    const { ids, own } = await this.enqueuer.write(session, inputs, options);
    const written = options?.report === true ? ids.map((id, i) => ({ id, duplicate: id !== own[i] })) : ids;
    return Array.isArray(input) ? written : written[0];
  }

  /** Writes in a short transaction of its own, whatever transaction is around this call: no atomicity with anything else. */
  enqueueOutsideTransaction(
    messages: readonly (TEvent | PlainMessage)[],
    options: MessageSettings & ReportOption,
  ): Promise<EnqueueReport[]>;
  enqueueOutsideTransaction(
    message: TEvent | PlainMessage,
    options: MessageSettings & ReportOption,
  ): Promise<EnqueueReport>;
  enqueueOutsideTransaction(messages: readonly (TEvent | PlainMessage)[], options?: MessageSettings): Promise<string[]>;
  enqueueOutsideTransaction(message: TEvent | PlainMessage, options?: MessageSettings): Promise<string>;
  async enqueueOutsideTransaction(input: unknown, options?: MessageSettings): Promise<unknown> {
    if (options !== undefined && ('tx' in options || 'manager' in options)) {
      throw new OutboxMessageError('INVALID_MESSAGE', 'enqueueOutsideTransaction takes no transaction.', {
        hint: 'Use enqueue to write in a transaction.',
      });
    }
    const enqueue = (tx: TransactionHandle): Promise<unknown> => this.enqueue(input as TEvent, { ...options, tx });
    return this.runtime.dataLayer.transaction(enqueue as InTransaction<unknown>);
  }

  /** The same outbox, writing in this transaction: `outbox.with(tx).enqueue(event)`. */
  with(tx: TransactionHandle): OutboxWriter<TEvent> {
    const enqueue = (input: unknown, options?: MessageSettings): Promise<never> =>
      this.enqueue(input as TEvent, { ...options, tx: tx ?? (null as never) }) as Promise<never>;
    return { enqueue };
  }

  /**
   * Runs `work` with this transaction around it: `enqueue` inside needs no `tx`, until the transaction ends. It neither begins
   * nor ends a transaction. An Observable that `work` returns is subscribed to inside, so an interceptor may return
   * `next.handle()`. A lazy query that `work` returns is not awaited inside, and runs outside.
   */
  bind<T>(tx: TransactionHandle, work: () => T): T {
    const found = this.runtime.dataLayer.require(tx);
    const run = (session: Session): T => this.current.scope.run(session, work);
    return found instanceof Promise ? (found.then(run) as T) : run(found);
  }

  /**
   * Runs `work` in a transaction in which `enqueue` needs no `tx`. It joins the ambient transaction, or else begins one, commits
   * it when `work` resolves, and rolls it back when `work` rejects. A transaction that your library begins inside is a different
   * one: use what `work` receives.
   */
  async transaction<T>(
    work: (tx: OutboxTransaction) => Promise<T>,
    options: OutboxTransactionOptions = {},
  ): Promise<T> {
    checkTransaction(work, options);
    const { nested = false, isolation } = options;
    const found = this.current.ambient();
    const ambient = found instanceof Promise ? await found : found;
    if (ambient !== undefined && isolation !== undefined) {
      const hint = 'Choose it where the outermost transaction begins.';
      misconfigured('isolation cannot be chosen inside a transaction.', hint);
    }
    const { dataLayer } = this.runtime;
    const given = work as InTransaction<T>;
    if (ambient !== undefined && !nested) return this.current.scope.run(ambient, () => given(ambient.handle));
    const inScope: InTransaction<T> = async (handle) =>
      this.current.scope.run(await dataLayer.require(handle), () => given(handle));
    return ambient === undefined ? dataLayer.transaction(inScope, isolation) : ambient.nested(inScope);
  }

  /**
   * Tries dead messages again now, with all their attempts, in their old place in the order. By `ids` or `state` it also takes
   * waiting and blocked ones. Each call is in the audit of `OutboxAdmin`. With `dryRun: true` it only counts.
   */
  requeue(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  requeue(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  requeue(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('requeue', ...action);
  }

  /** Deletes dead messages; messages they blocked continue. By `ids` or `state` it also takes waiting and blocked ones. */
  discard(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  discard(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  discard(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('discard', ...action);
  }

  /**
   * Deletes messages that have not been published. Ids in `changed` will not be published; ids in `tooLate` may be. A message with
   * several transports is `changed` if none of them will publish it, or, if the selection names a transport, if that one
   * will not.
   */
  cancel(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  cancel(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  cancel(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('cancel', ...action);
  }

  /** Unblocks a key: its dead messages stay dead, but no longer block it. */
  release(key: string, options?: ReleaseOptions): Promise<ReleaseReport> {
    return this.actions.release(key, options);
  }

  /**
   * Ends leases early: relays take these buckets over within two polls. Use it if an instance is gone and its lease is long. An
   * instance that is still alive learns of it with its next renewal. Until then both publish, so messages may go out twice; its
   * other writes are fenced.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the selection names nothing
   */
  async breakLeases(selection: LeaseSelection): Promise<BrokenLeases> {
    checkLeaseSelection(selection);
    const [{ store }, { transport }] = [this.runtime, selection];
    const id = transport === undefined ? undefined : numberOf(transport, await store.setup.transports(), 'breakLeases');
    return breakLeases(store.leases, selection, id);
  }

  /** Counts of messages, by transport. Reads the database. */
  stats(): Promise<OutboxStats> {
    return this.runtime.report.stats();
  }
  /** Whether messages are being published, and the reasons if not. It takes 2 s at most, and leaves out counts that take longer. */
  health(): Promise<OutboxHealth> {
    return this.runtime.report.health();
  }
}
