import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { parseUuid } from '../message/uuid-v7.js';
import { errorText } from '../observe/redact/error-text.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import type { Change } from '../store/admin-store.js';
import type { BulkStore } from '../store/bulk-store.js';
import type { InspectStore, StoredRow } from '../store/inspect-store.js';
import type { LeaseStore } from '../store/lease-store.js';
import type { OutboxStore, StoreSetup } from '../store/outbox-store.js';
import { systemClock } from '../time/clock.js';
import { actorOf } from './actor.js';
import { auditPage, checkedAuditId, checkedAuditPage, type AuditPage } from './audit.js';
import { checkedOptions, type BulkOptions, type BulkReport } from './bulk-options.js';
import { countMeant, runBulk } from './bulk-run.js';
import { checkedBulk, filterText, type BulkSelection } from './bulk-selection.js';
import { bucketStates, type BucketState } from './bucket-table.js';
import { notThere, reasonsOf } from './explanation.js';
import type { Explanation } from './explanation-reason.js';
import { checkedFailures, FAILURE_LOOK, grouped, type FailureQuery, type FailureReport } from './failure-groups.js';
import { toFound, type FoundMessage } from './found-message.js';
import { PREVIEW_BYTES, toDetails, type MessageDetails, type TransportDetails } from './message-details.js';
import { ofFilter } from './of-filter.js';
import type { DryRun, OperatorCount } from './selection.js';
import {
  checkedPage,
  checkedText,
  checkedQuery,
  readCursor,
  writeCursor,
  type CheckedQuery,
  type MessageQuery,
  type PageOptions,
} from './message-query.js';

/** Some messages, and where to go on. */
export interface MessagePage {
  /** In the order of their states: dead, waiting, blocked, scheduled, ready, published. */
  readonly messages: readonly FoundMessage[];
  /** For the next page; `null`: that was the last one. */
  readonly next: string | null;
  /**
   * `false`: the time for a page was over before it was full. `next` goes on there. Of `ids` it says that the tables were too
   * long to be looked through, and what is missing may be there.
   */
  readonly complete: boolean;
}

export interface AdminSources {
  readonly store: Pick<OutboxStore, 'inspect' | 'bulk'> & Pick<StoreSetup, 'transports'> & Pick<LeaseStore, 'living'>;
  readonly options: Pick<ResolvedOptions, 'coordination'>;
  /** @throws OutboxMessageError `UNKNOWN_TRANSPORT` */
  numberOf(name: string, known: ReadonlyMap<string, number>, subject: string): number;
  /** Messages may be due, as an operator changed them. Must return at once. */
  changed(): void;
}

/** Milliseconds for a page: a filter that few messages match goes on with the next one. */
const PAGE_TIME = 1_000;

/**
 * Finds messages, says what holds them, and changes many of them. It works in every process, and needs no relay. What it changes
 * stands in an audit.
 */
export class OutboxAdmin {
  constructor(/** @internal */ readonly sources: AdminSources) {}

  /**
   * Messages page by page, in all their transports. A message that moves between two pages may be seen twice, or not at all.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the filter, the limit or the cursor is none
   */
  async find(query: MessageQuery = {}, page: PageOptions = {}): Promise<MessagePage> {
    const checked = checkedQuery(query);
    const { limit, after } = checkedPage(page);
    const known = await this.known(query.transport, 'find');
    return checked.ids === undefined
      ? this.walk(query, checked, known, { limit, after })
      : this.named(checked.ids, checked, known);
  }

  /**
   * One message in all its transports. Values of headers are masked; of the payload the first bytes, where they are asked for.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the id is none
   * @throws OutboxError `TIMEOUT`: the database did not answer within 2 s
   */
  async show(id: string, options: { payload?: boolean } = {}): Promise<MessageDetails> {
    const checked = checkedId('show', id);
    if (typeof options !== 'object' || options === null)
      refuse('show', `options must be an object, not ${typeName(options)}`);
    refuseUnknown(options, ['payload'], 'show');
    const withPayload: unknown = options.payload ?? false;
    if (typeof withPayload !== 'boolean') refuse('show', `payload must be true or false, not ${typeName(withPayload)}`);
    const { names } = await this.known(undefined, 'show');
    const { rows, isComplete } = await this.inspect.byIds([checked]);
    const transports: TransportDetails[] = [];
    for (const row of rows) {
      const content = await this.inspect.content(row, withPayload ? PREVIEW_BYTES : 0);
      if (content !== undefined) transports.push(toDetails(row, content, names, withPayload));
    }
    return { id: checked, transports, complete: isComplete };
  }

  /**
   * Why a message is not sent: what the database says, as codes with facts and as a sentence. What only a relay knows is not in it.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the id is none
   */
  async explain(id: string): Promise<Explanation> {
    const checked = checkedId('explain', id);
    const { names } = await this.known(undefined, 'explain');
    const { rows, isComplete } = await this.inspect.byIds([checked]);
    if (rows.length === 0) {
      const reason = notThere(isComplete, await this.inspect.openTransactions());
      return { id: checked, text: reason.text, reasons: [reason] };
    }
    const { instances } = await this.sources.store.living();
    const sources = { names, instances, usesLeases: this.sources.options.coordination !== 'rowLock' };
    const reasons = [];
    for (const row of rows) reasons.push(reasonsOf(row, await this.inspect.surroundings(row), sources));
    return { id: checked, text: reasons.map(([first]) => first?.text).join(' '), reasons: reasons.flat() };
  }

  /**
   * Failures of messages that wait or are dead, those that are alike together. It looks at 10,000 messages of each state at
   * most, at those that died last and at those that are due next.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the filter is none
   */
  async failures(query: FailureQuery = {}): Promise<FailureReport> {
    const { transport, ...filter } = checkedFailures(query);
    const { names, number } = await this.known(transport, 'failures');
    const ofTransport = number === undefined ? {} : { transport: number };
    return grouped(await this.inspect.failures({ ...filter, ...ofTransport, look: FAILURE_LOOK }), names);
  }

  /** All buckets: who publishes from each, until when, and how much is ready in it. */
  async buckets(options: { transport?: string } = {}): Promise<BucketState[]> {
    if (typeof options !== 'object' || options === null)
      refuse('buckets', `options must be an object, not ${typeName(options)}`);
    refuseUnknown(options, ['transport'], 'buckets');
    const { names, number } = await this.known(options.transport, 'buckets');
    const rows = await this.inspect.buckets(number);
    return bucketStates(rows, names, (await this.sources.store.living()).instances);
  }

  /**
   * All that the filter names now is tried again at once, with all its attempts, in its old place of the key's order. It runs in
   * chunks until nothing is left of what was there when it began. With `dryRun: true` it only counts.
   * @throws OutboxMessageError `INVALID_MESSAGE`, `UNKNOWN_TRANSPORT`: the filter or an option is none
   * @throws OutboxConfigurationError `SCHEMA_MISSING`: the tables have no audit yet; nothing was changed
   */
  requeue(selection: BulkSelection, options: BulkOptions & DryRun): Promise<OperatorCount>;
  requeue(selection: BulkSelection, options?: BulkOptions): Promise<BulkReport>;
  requeue(selection: BulkSelection, options: BulkOptions & Partial<DryRun> = {}): Promise<BulkReport | OperatorCount> {
    return this.act('requeue', selection, options);
  }

  /** The same: deletes it. What it blocked goes on. */
  discard(selection: BulkSelection, options: BulkOptions & DryRun): Promise<OperatorCount>;
  discard(selection: BulkSelection, options?: BulkOptions): Promise<BulkReport>;
  discard(selection: BulkSelection, options: BulkOptions & Partial<DryRun> = {}): Promise<BulkReport | OperatorCount> {
    return this.act('discard', selection, options);
  }

  /**
   * The same for what was not published yet, whatever its state is: also what is scheduled, and what is ready in buckets from which
   * nobody publishes now. A count does not have what is ready.
   */
  cancel(selection: BulkSelection, options: BulkOptions & DryRun): Promise<OperatorCount>;
  cancel(selection: BulkSelection, options?: BulkOptions): Promise<BulkReport>;
  cancel(selection: BulkSelection, options: BulkOptions & Partial<DryRun> = {}): Promise<BulkReport | OperatorCount> {
    return this.act('cancel', selection, options);
  }

  /**
   * Lets a blocked key go on: its dead messages stay dead, but block no longer.
   * @throws OutboxMessageError, OutboxConfigurationError as `requeue` does
   */
  async release(
    key: string,
    options: { transport?: string; by?: string } = {},
  ): Promise<{ released: number; auditId: string }> {
    if (typeof options !== 'object' || options === null)
      refuse('release', `options must be an object, not ${typeName(options)}`);
    refuseUnknown(options, ['transport', 'by'], 'release');
    const checked = checkedText('release', 'key', key) ?? refuse('release', 'key must be a string that is not empty');
    const { transport, by } = options;
    const actor = actorOf('release', by);
    const { number } = await this.known(transport, 'release');
    const auditId = await this.bulk.begin({ action: 'release', actor, filter: JSON.stringify({ key, transport }) });
    const filter = { key: checked, ...(number === undefined ? {} : { transport: number }) };
    try {
      const released = (await this.bulk.release(auditId, filter)) ?? 0;
      await this.bulk.end(auditId, 'done', null);
      this.sources.changed();
      return { released, auditId };
    } catch (error) {
      await this.bulk.end(auditId, 'failed', errorText(error)).catch(() => undefined); // the database may be what failed
      throw error;
    }
  }

  /** What operators did, the last first: who, what, when and how many. */
  async audit(page: PageOptions = {}): Promise<AuditPage> {
    const { limit, after } = checkedAuditPage(page);
    return auditPage(await this.bulk.audit(after, limit), limit);
  }

  /**
   * Ends an action that runs in any process, before its next chunk; also one whose process is gone.
   * @returns whether it was running
   */
  async stop(auditId: string): Promise<boolean> {
    return this.bulk.end(checkedAuditId('stop', 'auditId', auditId), 'aborted', null);
  }

  /** @internal */ async act(
    change: Change,
    selection: BulkSelection,
    options: BulkOptions & Partial<DryRun>,
  ): Promise<BulkReport | OperatorCount> {
    const meant = checkedBulk(change, selection);
    const checked = checkedOptions(change, options);
    const dryRun: unknown = options.dryRun ?? false;
    if (typeof dryRun !== 'boolean') refuse(change, `dryRun must be true or false, not ${typeName(dryRun)}`);
    const { number } = await this.known(meant.transport, change);
    const sources = { bulk: this.bulk, inspect: this.inspect, changed: () => this.sources.changed() };
    const action = { change, meant, transport: number };
    if (dryRun) return { count: await countMeant(sources, action) };
    return runBulk(sources, action, checked, filterText(selection));
  }

  /** @internal */ get bulk(): BulkStore {
    const { bulk } = this.sources.store;
    if (bulk !== undefined) return bulk;
    throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'OutboxAdmin: this store has no bulk.', {
      hint: 'Use the stores of the package, or give yours a BulkStore.',
    });
  }

  /** @internal */ get inspect(): InspectStore {
    const { inspect } = this.sources.store;
    if (inspect !== undefined) return inspect;
    throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', 'OutboxAdmin: this store has no inspect.', {
      hint: 'Use the stores of the package, or give yours an InspectStore.',
    });
  }

  /** @internal Transports by number, also those that left the options; and the number of the one that is meant. */
  async known(transport: string | undefined, subject: string): Promise<Known> {
    const known = await this.sources.store.transports();
    const names = new Map([...known].map(([name, number]) => [number, name]));
    return { names, number: transport === undefined ? undefined : this.sources.numberOf(transport, known, subject) };
  }

  /** @internal */ async named(ids: readonly string[], query: CheckedQuery, known: Known): Promise<MessagePage> {
    const { rows, isComplete } = await this.inspect.byIds(ids);
    const messages = ofFilter(rows, query, known.number).map((row) => toFound(row, known.names));
    return { messages, next: null, complete: isComplete };
  }

  /** @internal State by state, each in the order of its index. */
  async walk(
    query: MessageQuery,
    { states, filter }: CheckedQuery,
    { names, number }: Known,
    { limit, after }: { limit: number; after: string | undefined },
  ): Promise<MessagePage> {
    const end = systemClock.monotonic() + PAGE_TIME;
    const begin = after === undefined ? undefined : readCursor(after, query);
    const found: StoredRow[] = [];
    let [position, looks] = [begin?.position ?? null, 0];
    for (const state of begin === undefined ? states : states.slice(states.indexOf(begin.state))) {
      do {
        if (found.length >= limit || (looks > 0 && systemClock.monotonic() > end))
          return pageOf(found, names, writeCursor({ state, position }, query), limit);
        looks += 1;
        const transport = number === undefined ? {} : { transport: number };
        const page = await this.inspect.page({
          ...filter,
          ...transport,
          state,
          after: position,
          limit: limit - found.length,
        });
        found.push(...page.rows);
        position = page.next;
      } while (position !== null);
    }
    return pageOf(found, names, null, limit);
  }
}

interface Known {
  readonly names: ReadonlyMap<number, string>;
  readonly number: number | undefined;
}

function pageOf(rows: readonly StoredRow[], names: Known['names'], next: string | null, limit: number): MessagePage {
  const messages = rows.map((row) => toFound(row, names));
  return { messages, next, complete: next === null || rows.length >= limit };
}

const checkedId = (subject: string, id: unknown): string => parseUuid(id) ?? refuse(subject, 'the id is no UUID');
