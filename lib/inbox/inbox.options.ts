import type { FactoryProvider, ModuleMetadata } from '@nestjs/common';
import { resolveFactory, row, type FactoryTable } from '../options/factory-options.js';
import { aFunction, anything, duration, objectOf, oneOf, orNull, text } from '../options/rules.js';
import type { OutboxDataLayer, TransactionHandle } from '../outbox-data-layer.js';
import type { Duration } from '../outbox-message.js';
import type { OutboxExtras } from '../outbox.options.js';
import type { InboxTableOptions } from './tables.js';

export interface InboxOptions {
  /**
   * Names the group of consumers for `inbox.once`: the effect of a message happens once in each. Two effects of one message in one
   * service need two names. Letters, digits and `.:/_-`. Default `default`.
   */
  consumer?: string;
  /** Default: that of the application's `OutboxModule`; without one TypeORM's DataSource. */
  dataLayer?: OutboxDataLayer;
  /** As in the options of the outbox, whose own is the default. */
  currentTransaction?: () => TransactionHandle | undefined;
  /**
   * Decides what happens while another process handles the same message: `wait` until it is committed or rolled back, `refuse` rejects with
   * `IN_PROGRESS`; on MariaDB and MySQL after a second. Default `wait`.
   */
  onConcurrent?: 'wait' | 'refuse';
  /** How long a message is remembered; `null`: for ever. A repetition that comes later has its effect again. Default `30d`. */
  retention?: Duration | null;
  /** Where the tables are. Default: beside those of the outbox. */
  database?: InboxTableOptions & {
    /** `check` looks for them at start, `create` makes them (development), `none` does neither. Default `check`. */
    readonly setup?: 'check' | 'create' | 'none';
  };
}
/** Needed before the other options are made. */
export interface InboxExtras {
  /** For a second inbox of the application: `@InjectInbox(name)`. Default `default`. */
  readonly name?: string;
  /** Which DataSource of TypeORM, as in the options of the outbox. */
  readonly dataSource?: OutboxExtras['dataSource'];
}
export interface InboxAsyncOptions extends InboxExtras, Pick<ModuleMetadata, 'imports'> {
  readonly inject?: FactoryProvider['inject'];
  // eslint-disable-next-line typescript/no-explicit-any -- what is injected
  readonly useFactory: (...injected: any[]) => InboxOptions | Promise<InboxOptions>;
}

/** With their defaults; what an outbox may say is left open. */
export type ResolvedInboxOptions = Pick<InboxOptions, 'dataLayer' | 'currentTransaction'> &
  Required<Pick<InboxOptions, 'consumer' | 'onConcurrent' | 'database'>> & {
    /** Milliseconds. */
    readonly retention: number | null;
  };

export const consumerName = text(/^[\w.:/-]{1,100}$/, "1 to 100 letters, digits and '.:/_-'");
export const concurrency = oneOf('wait', 'refuse');
const aText = { allowed: 'a string', parse: (value: unknown) => value };

const TABLE: FactoryTable<InboxOptions> = {
  factory: 'InboxModule',
  rows: {
    consumer: row(consumerName, 'default'),
    dataLayer: row(anything),
    currentTransaction: row(aFunction),
    onConcurrent: row(concurrency, 'wait'),
    retention: row(orNull(duration('1m', '3650d')), 30 * 86_400_000),
    database: row(objectOf({ prefix: aText, schema: aText, setup: oneOf('check', 'create', 'none') }), {}),
  },
};

/** @throws OutboxConfigurationError `INVALID_OPTIONS`, with all problems */
export const resolveInbox = (given: InboxOptions): ResolvedInboxOptions =>
  resolveFactory(TABLE, given) as ResolvedInboxOptions;
