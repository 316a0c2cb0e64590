import { bucketOf } from '../message/bucket-of.js';
import { refuse } from '../options/refuse.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Change } from '../store/admin-store.js';
import type { InspectStore } from '../store/inspect-store.js';
import type { ActReport, OperatorStore } from '../store/operator-store.js';
import type { Roles } from '../store/outbox-store.js';
import { actorOf } from './actor.js';
import {
  checkedOptions,
  type ChangeOptions,
  type ChangeReport,
  type DryRun,
  type OperatorCount,
} from './bulk-options.js';
import { checkedFlag, checkedText, checkObject } from './checks.js';
import { countMeant, runChange } from './change-run.js';
import { checkedSelection, filterText, type MessageSelection } from './message-selection.js';

export interface ActionSources {
  readonly store: Roles<'operators' | 'inspect' | 'setup'>;
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

  get operators(): OperatorStore {
    return this.sources.store.operators ?? refuseStore('operators', 'an OperatorStore');
  }

  async change(
    change: Change,
    selection: MessageSelection,
    options: ChangeOptions & Partial<DryRun> = {},
  ): Promise<ChangeReport | OperatorCount> {
    const meant = checkedSelection(change, selection);
    const checked = checkedOptions(change, options, ['limit']);
    const dryRun = checkedFlag(change, 'dryRun', options.dryRun);
    if (meant.ids !== undefined && options.limit !== undefined) refuse(change, 'limit does not go with ids');
    const { operators, inspect } = this;
    const sources = { operators, inspect, changed: () => this.sources.changed('parked') };
    const { options: own } = this.sources;
    const { key } = meant.filter;
    const bucket = key === undefined ? undefined : own.ordering === 'global' ? 0 : bucketOf(key, own.buckets);
    const action = { change, meant, transport: await this.numberOf(meant.transport, change), bucket };
    if (dryRun) return { count: await countMeant(sources, action, checked.limit) };
    return runChange(sources, action, checked, filterText(selection));
  }

  async release(key: string, options: ReleaseOptions = {}): Promise<ReleaseReport> {
    checkObject('release', 'options', options, ['transport', 'by']);
    const checked = checkedText('release', 'key', key) ?? refuse('release', 'key must be a string that is not empty');
    const { transport, by } = options;
    const actor = actorOf('release', by);
    const number = await this.numberOf(transport, 'release');
    const action = { action: 'release', actor, filter: JSON.stringify({ key, transport }) } as const;
    const report = await this.operators.act(action, { do: 'release', key: checked, transport: number });
    const { audit, done } = report as ActReport; // nothing refuses it
    this.sources.changed('parked');
    return { released: done, auditId: audit };
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
