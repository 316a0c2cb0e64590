import type { ChangeOptions, ChangeReport, DryRun, OperatorCount } from '../admin/bulk-options.js';
import { breakLeases, checkLeaseSelection, type BrokenLeases, type LeaseSelection } from '../admin/break-leases.js';
import type { MessageSelection } from '../admin/message-selection.js';
import { OperatorActions, type ReleaseOptions, type ReleaseReport } from '../admin/operator-actions.js';
import type { OutboxHealth } from '../observe/health.js';
import type { OutboxStats } from '../observe/stats.js';
import { OutboxConfigurationError, OutboxMessageError } from '../outbox.errors.js';
import type { EntityManager, TransactionHandle } from '../outbox.options.js';
import { Enqueuer, refuseForArray } from './enqueuer.js';
import type {
  AnyEvent,
  EnqueueOptions,
  EnqueueReport,
  MessageSettings,
  PlainMessage,
  ReportOption,
} from './options.js';
import type { EnqueueRuntime, OutboxEventSource } from './runtime.js';
import { numberOf } from './destinations.js';
import { typeName } from '../options/text-checks.js';
import { CurrentTransaction } from '../transaction/current-transaction.js';
import { checkTransaction, type OutboxTransactionOptions } from '../transaction/options.js';
import { TransactionScope } from '../transaction/transaction-scope.js';

/** A caller's function, to which its data layer hands what it has of a transaction. */
type InTransaction<T> = (handle: object) => Promise<T>;

/** A manager in the place of the options would be read as options without one. */
function refuseHandle(options: EnqueueOptions | undefined): void {
  const handle = options as { query?: unknown; queryRunner?: unknown } | undefined;
  if (typeof handle?.query !== 'function' && handle?.queryRunner === undefined) return;
  throw new OutboxMessageError('INVALID_MESSAGE', `The options of enqueue are ${typeName(options)}.`, {
    hint: 'Pass a manager by its name, enqueue(message, { manager }), or use outbox.with(manager).enqueue(message).',
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
  /** @internal */ readonly scope: TransactionScope;
  /** @internal */ readonly current: CurrentTransaction;
  /** @internal */ readonly enqueuer: Enqueuer;
  /** @internal */ readonly actions: OperatorActions;

  constructor(/** @internal */ readonly runtime: EnqueueRuntime) {
    const { dataLayer, options, hooks, store } = runtime;
    this.scope = TransactionScope.of(dataLayer);
    this.current = new CurrentTransaction(dataLayer, this.scope, options.currentManager);
    this.enqueuer = new Enqueuer(runtime);
    this.actions = new OperatorActions({ store, options, numberOf, changed: (where) => runtime.committed(where) });
    dataLayer.watchTransactions(
      () => this.scope.current(),
      (text) => hooks.emit('warning', { text }),
    );
  }

  /** What happens in this outbox; listeners can neither break nor slow it. */
  get events(): OutboxEventSource {
    return this.runtime.events;
  }

  /**
   * Writes events (classes with `@OutboxEvent`) or plain messages in a transaction: `options.manager`, else the one around
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
    const session = this.current.require(options?.manager);
    if (Array.isArray(input)) refuseForArray(options);
    const inputs: readonly unknown[] = Array.isArray(input) ? input : [input];
    const written: readonly unknown[] = await this.enqueuer[options?.report === true ? 'report' : 'write'](
      session,
      inputs,
      options,
    );
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
    if (options !== undefined && 'manager' in options) {
      throw new OutboxMessageError('INVALID_MESSAGE', 'enqueueOutsideTransaction takes no manager.', {
        hint: 'Use enqueue to write in a transaction.',
      });
    }
    const enqueue = (manager: TransactionHandle): Promise<unknown> =>
      this.enqueue(input as TEvent, { ...options, manager });
    return this.runtime.dataLayer.transaction(enqueue as InTransaction<unknown>);
  }

  /** The same outbox, writing in this transaction: `outbox.with(manager).enqueue(event)`. */
  with(manager: TransactionHandle): OutboxWriter<TEvent> {
    const enqueue = (input: unknown, options?: MessageSettings): Promise<never> =>
      this.enqueue(input as TEvent, { ...options, manager: manager ?? (null as never) }) as Promise<never>;
    return { enqueue };
  }

  /**
   * Runs `work` with this transaction around it: `enqueue` inside needs no `manager`, until the transaction ends. Does not begin or end anything.
   * An Observable that `work` returns is subscribed to inside, so that an interceptor may return `next.handle()`.
   * A query that only runs when it is awaited is handed back as it is, and runs outside.
   */
  bind<T>(manager: TransactionHandle, work: () => T): T {
    return this.scope.run(this.runtime.dataLayer.require(manager), work);
  }

  /**
   * Runs `work` in a transaction around which `enqueue` needs no `manager`: joins the ambient one, else begins one, commits
   * when `work` resolves and rolls back when it rejects. An inner `dataSource.transaction()` is another transaction: use
   * the manager that `work` is given.
   */
  async transaction<T>(
    work: (manager: EntityManager) => Promise<T>,
    options: OutboxTransactionOptions = {},
  ): Promise<T> {
    checkTransaction(work, options);
    const { nested = false, isolation } = options;
    const ambient = this.current.ambient();
    if (ambient !== undefined && isolation !== undefined) {
      throw new OutboxConfigurationError('INVALID_OPTIONS', 'isolation cannot be chosen inside a transaction.', {
        hint: 'Choose it where the outermost transaction begins.',
      });
    }
    const { dataLayer } = this.runtime;
    const given = work as InTransaction<T>;
    if (ambient !== undefined && !nested) return this.scope.run(ambient, () => given(ambient.handle));
    const inScope: InTransaction<T> = (handle) => this.scope.run(dataLayer.require(handle), () => given(handle));
    return ambient === undefined ? dataLayer.transaction(inScope, isolation) : ambient.nested(inScope);
  }

  /**
   * Dead messages are tried again now, with all their attempts, in their old place of the order; by `ids` or `state` also those
   * that wait or are blocked. `OutboxAdmin` has the same, and its audit has each call. With `dryRun: true` it only counts them.
   */
  requeue(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  requeue(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  requeue(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('requeue', ...action);
  }

  /** Deletes dead messages; what they blocked goes on. By `ids` or `state` also those that wait or are blocked. */
  discard(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  discard(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  discard(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('discard', ...action);
  }

  /**
   * Deletes messages that have not been published: of `ids`, those in `changed` will not be, and those in `tooLate` may be. One with
   * several transports is `changed` when none of them will publish it any more, or, if the selection names a transport, when
   * that one will not.
   */
  cancel(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  cancel(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  cancel(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('cancel', ...action);
  }

  /** Lets a blocked key go on: its dead messages stay dead, but block no longer. */
  release(key: string, options?: ReleaseOptions): Promise<ReleaseReport> {
    return this.actions.release(key, options);
  }

  /**
   * Ends leases before they run out: relays take these buckets over within two polls. For an instance that is gone and whose
   * lease is long. One that lives learns of it with its next renewal: until then both publish, so messages may go out
   * twice; nothing else that it writes counts.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the selection names nothing
   */
  async breakLeases(selection: LeaseSelection): Promise<BrokenLeases> {
    checkLeaseSelection(selection);
    const [{ store }, { transport }] = [this.runtime, selection];
    const id = transport === undefined ? undefined : numberOf(transport, await store.setup.transports(), 'breakLeases');
    return breakLeases(store.leases, selection, id);
  }

  /** What waits, by transport. Reads the database. */
  stats(): Promise<OutboxStats> {
    return this.runtime.report.stats();
  }
  /** Whether messages are being published, and what is wrong if not. It takes 2 s at most: without the counts, if they take longer. */
  health(): Promise<OutboxHealth> {
    return this.runtime.report.health();
  }
}
