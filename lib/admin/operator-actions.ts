import { bucketOf } from '../message/bucket-of.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Change } from '../store/admin-store.js';
import type { BulkStore } from '../store/bulk-store.js';
import type { InspectStore } from '../store/inspect-store.js';
import type { Roles } from '../store/outbox-store.js';
import { actorOf } from './actor.js';
import { audited } from './audited-run.js';
import {
  checkedDryRun,
  checkedOptions,
  type ChangeOptions,
  type ChangeReport,
  type DryRun,
  type OperatorCount,
} from './bulk-options.js';
import { countMeant, runChange } from './change-run.js';
import { checkedText } from './message-query.js';
import { checkedSelection, filterText, type MessageSelection } from './message-selection.js';

export interface ActionSources {
  readonly store: Roles<'bulk' | 'inspect' | 'setup'>;
  readonly options: Pick<ResolvedOptions, 'buckets' | 'ordering'>;
  /** @throws OutboxMessageError `UNKNOWN_TRANSPORT` */
  numberOf(name: string, known: ReadonlyMap<string, number>, subject: string): number;
  /** Messages may be due, as an operator changed them. Must return at once. */
  changed(where: 'ready' | 'parked'): void;
}
/** How a key is released. */
export interface ReleaseOptions {
  transport?: string;
  /** Who acts, for the audit. Default: the user of this process and its machine. */
  by?: string;
}
export interface ReleaseReport {
  /** Dead messages that block no longer. */
  readonly released: number;
  /** Its number in `audit()`. */
  readonly auditId: string;
}

/** `requeue`, `discard`, `cancel` and `release`, as `OutboxService` and `OutboxAdmin` both have them. All of it stands in the audit. */
export class OperatorActions {
  constructor(readonly sources: ActionSources) {}

  get inspect(): InspectStore {
    return this.sources.store.inspect ?? refuseStore('inspect', 'an InspectStore');
  }

  get bulk(): BulkStore {
    return this.sources.store.bulk ?? refuseStore('bulk', 'a BulkStore');
  }

  async change(
    change: Change,
    selection: MessageSelection,
    options: ChangeOptions & Partial<DryRun> = {},
  ): Promise<ChangeReport | OperatorCount> {
    const meant = checkedSelection(change, selection);
    const checked = checkedOptions(change, options, ['limit']);
    const dryRun = checkedDryRun(change, options);
    if (meant.ids !== undefined && options.limit !== undefined) refuse(change, 'limit does not go with ids');
    const { bulk } = this;
    const sources = { bulk, inspect: () => this.inspect, changed: () => this.sources.changed('parked') };
    const { options: own } = this.sources;
    const { key } = meant.filter;
    const bucket = key === undefined ? undefined : own.ordering === 'global' ? 0 : bucketOf(key, own.buckets);
    const action = { change, meant, transport: await this.numberOf(meant.transport, change), bucket };
    if (dryRun) return { count: await countMeant(sources, action, checked.limit) };
    return runChange(sources, action, checked, filterText(selection));
  }

  async release(key: string, options: ReleaseOptions = {}): Promise<ReleaseReport> {
    if (typeof options !== 'object' || options === null)
      refuse('release', `options must be an object, not ${typeName(options)}`);
    refuseUnknown(options, ['transport', 'by'], 'release');
    const checked = checkedText('release', 'key', key) ?? refuse('release', 'key must be a string that is not empty');
    const { transport, by } = options;
    const actor = actorOf('release', by);
    const number = await this.numberOf(transport, 'release');
    const auditId = await this.bulk.begin({ action: 'release', actor, filter: JSON.stringify({ key, transport }) });
    const filter = { key: checked, ...(number === undefined ? {} : { transport: number }) };
    let released = 0;
    await audited(
      (...ended) => this.bulk.end(auditId, ...ended),
      async () => {
        released = (await this.bulk.release(auditId, filter)) ?? 0;
        return true;
      },
    );
    this.sources.changed('parked');
    return { released, auditId };
  }

  /** A transport that left the options has rows all the same: its name stands in the database. */
  private async numberOf(transport: string | undefined, subject: string): Promise<number | undefined> {
    if (transport === undefined) return undefined;
    return this.sources.numberOf(transport, await this.sources.store.setup.transports(), subject);
  }
}

export function refuseStore(part: string, what: string): never {
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `OutboxAdmin: this store has no ${part}.`, {
    hint: `Use the stores of the package, or give yours ${what}.`,
  });
}
