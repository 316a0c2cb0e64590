import type { ResolvedOptions } from '../outbox.options.js';
import { refuse } from '../options/refuse.js';
import type { TransportStats } from '../store/admin-store.js';
import type { EditableContent, EditableRow } from '../store/edit.js';
import type { AuditRow, OperatorStore } from '../store/operator-store.js';
import type { Roles } from '../store/outbox-store.js';
import { auditPage, checkedAuditPage, type AuditPage } from './audit.js';
import { checkedAuditId, checkedFlag, checkedId, checkedPage, checkObject } from './checks.js';
import {
  checkedOptions,
  type BulkOptions,
  type ChangeOptions,
  type ChangeReport,
  type DryRun,
  type OperatorCount,
} from './bulk-options.js';
import { filterText, type MessageSelection } from './message-selection.js';
import { OperatorActions, type ActionSources, type ReleaseOptions, type ReleaseReport } from './operator-actions.js';
import { seeRelays, type SeenRelay } from '../observe/seen-relays.js';
import { bucketStates, type BucketState } from './bucket-table.js';
import { notThere, reasonsOf } from './explanation.js';
import type { Explanation, ExplainSources } from './explanation-reason.js';
import { checkedFailures, FAILURE_LOOK, grouped, type FailureQuery, type FailureReport } from './failure-groups.js';
import { PREVIEW_BYTES } from './content-view.js';
import {
  checkedChanges,
  checkedEdit,
  type CheckedEdit,
  type EditOptions,
  type MessageChanges,
} from './edit/edit-changes.js';
import { editMessage, type EditPreview, type EditReport, type EditSources } from './edit/edit-message.js';
import { keptVersion, restoredInto, versionBefore } from './edit/kept-version.js';
import { toDetails, type MessageDetails, type TransportDetails } from './message-details.js';
import {
  pause,
  resume,
  pauseEntries,
  type PauseEntry,
  type PauseOutcome,
  type PauseRequest,
  type PauseSources,
  type ResumeRequest,
} from './pauses/pause.js';
import { countPurged, runPurge, type PurgeCount, type PurgeReport } from './purge/purge-run.js';
import { checkedPurge, type PurgeSelection } from './purge/purge-selection.js';
import { drain, type DrainReport } from './drain/drain.js';
import { checkedDrain, type DrainOptions } from './drain/drain-options.js';
import { preview, replay } from './replay/replay.js';
import { checkedReplayOptions, type ReplayOptions, type ReplayReport } from './replay/replay-options.js';
import type { ReplayPreview } from './replay/replay-preview.js';
import { checkedReplay, type ReplaySelection } from './replay/replay-selection.js';
import { listMessages, namedMessages, type KnownTransports, type MessagePage } from './message-pages.js';
import { checkedQuery, type MessageQuery, type PageOptions } from './message-query.js';

export interface AdminSources extends ActionSources {
  readonly store: Roles<'inspect' | 'operators' | 'partitions' | 'setup' | 'leases' | 'admin' | 'diagnose'>;
  readonly options: Pick<ResolvedOptions, 'coordination' | 'buckets' | 'ordering' | 'transports'>;
  /** Relays have something to hear, of all instances. Must return at once. */
  pausesChanged(): void;
  /** Makes the new version of a message. */
  readonly rewrite: EditSources['rewrite'];
}

/** Old versions of one message that are shown. */
const KEPT_SHOWN = 20;

/**
 * Finds messages, says what holds them up, and changes many at once. It works in every process and needs no relay. Each change
 * is in the audit.
 */
export class OutboxAdmin {
  /** @internal */ readonly actions: OperatorActions;

  constructor(/** @internal */ readonly sources: AdminSources) {
    this.actions = new OperatorActions(sources);
  }

  /**
   * Lists messages page by page, in all their transports. A message that moves between two pages may be seen twice, or not at all.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the filter, the limit or the cursor is none
   */
  async find(query: MessageQuery = {}, page: PageOptions = {}): Promise<MessagePage> {
    const checked = checkedQuery(query);
    const { limit, after } = checkedPage('find', page);
    const known = await this.known(query.transport, 'find');
    return checked.ids === undefined
      ? listMessages(this.actions.inspect, query, checked, known, { limit, after })
      : namedMessages(this.actions.inspect, checked.ids, checked, known);
  }

  /**
   * Returns one message in all its transports. Header values are masked. `payload: true` adds the first bytes of the payload.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the id is none
   * @throws OutboxError `TIMEOUT`: the database did not answer within 2 s
   */
  async show(id: string, options: { payload?: boolean } = {}): Promise<MessageDetails> {
    const checked = checkedId('show', id);
    checkObject('show', 'options', options, ['payload']);
    const withPayload = checkedFlag('show', 'payload', options.payload);
    const { names } = await this.known(undefined, 'show');
    const { rows, isComplete } = await this.actions.inspect.byIds([checked]);
    const transports: TransportDetails[] = [];
    for (const row of rows) {
      const content = await this.actions.inspect.content(row, withPayload ? PREVIEW_BYTES : 0);
      if (content === undefined) continue;
      transports.push(toDetails(row, content, names, withPayload));
    }
    const kept = await keptOf(this.actions.operators, checked, withPayload ? PREVIEW_BYTES : 0);
    const edits = kept.map((row) => keptVersion(row, names, withPayload));
    return { id: checked, transports, edits, complete: isComplete };
  }

  /**
   * Says why a message is not sent, as codes with facts and as a text. It knows only what the database knows.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the id is none
   */
  async explain(id: string): Promise<Explanation> {
    const checked = checkedId('explain', id);
    const { names } = await this.known(undefined, 'explain');
    const { rows, isComplete } = await this.actions.inspect.byIds([checked]);
    if (rows.length === 0) {
      const reason = notThere(isComplete, await openTransactions(this.sources));
      return { id: checked, text: reason.text, reasons: [reason] };
    }
    const sources = await this.explaining(names);
    const reasons = [];
    for (const row of rows) reasons.push(reasonsOf(row, await this.actions.inspect.surroundings(row), sources));
    return { id: checked, text: reasons.map(([first]) => first?.text).join(' '), reasons: reasons.flat() };
  }

  /**
   * Groups waiting and dead messages that failed alike. It reads at most 10,000 of each state: the latest to die, and the next
   * to be due.
   * @throws OutboxMessageError `INVALID_MESSAGE`: the filter is none
   */
  async failures(query: FailureQuery = {}): Promise<FailureReport> {
    const { transport, ...filter } = checkedFailures(query);
    const { names, number } = await this.known(transport, 'failures');
    const ofTransport = number === undefined ? {} : { transport: number };
    return grouped(await this.actions.inspect.failures({ ...filter, ...ofTransport, look: FAILURE_LOOK }), names);
  }

  /**
   * Waits until every message committed before the call is published, dead or scheduled for later, and reports what is left and
   * why. It only reads: a relay must be running, in this process or another. Later messages are not waited for.
   * @throws OutboxMessageError `INVALID_MESSAGE`, `UNKNOWN_TRANSPORT`: an option is none
   * @throws OutboxError or what the database said: the first look failed, or the last one before the time was over
   */
  async drain(options: DrainOptions = {}): Promise<DrainReport> {
    const checked = checkedDrain(options);
    const { inspect } = this.actions;
    return drain(async () => {
      const { names, number } = await this.known(checked.transport, 'drain');
      const stats = (): Promise<TransportStats[]> => this.sources.store.admin.stats();
      const explain = (): Promise<ExplainSources> => this.explaining(names);
      return { inspect, transport: number, stats, explain, openTransactions: () => openTransactions(this.sources) };
    }, checked);
  }

  /** Lists all buckets: which instance publishes from each, until when, and how much is ready in it. */
  async buckets(options: { transport?: string } = {}): Promise<BucketState[]> {
    checkObject('buckets', 'options', options, ['transport']);
    const { names, number } = await this.known(options.transport, 'buckets');
    const rows = await this.actions.inspect.buckets(number);
    return bucketStates(rows, names, await relaysOf(this.sources, names));
  }

  /**
   * Tries all matching messages again at once, with all their attempts, in their old place in the key's order. It runs in chunks
   * until every message that matched when it began is done. With `dryRun: true` it only counts.
   * @throws OutboxMessageError `INVALID_MESSAGE`, `UNKNOWN_TRANSPORT`: the filter or an option is none
   * @throws OutboxConfigurationError `SCHEMA_MISSING`: the tables have no audit yet; nothing was changed
   */
  requeue(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  requeue(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  requeue(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('requeue', ...action);
  }

  /** Deletes all matching messages, in the same way. Messages they blocked continue. */
  discard(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  discard(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  discard(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('discard', ...action);
  }

  /**
   * Deletes all matching messages that were not published, in any state: also scheduled ones, and ready ones in buckets from which
   * no relay publishes now.
   */
  cancel(selection: MessageSelection, options: ChangeOptions & DryRun): Promise<OperatorCount>;
  cancel(selection: MessageSelection, options?: ChangeOptions): Promise<ChangeReport>;
  cancel(...action: [MessageSelection, ChangeOptions?]): Promise<ChangeReport | OperatorCount> {
    return this.actions.change('cancel', ...action);
  }

  /**
   * Unblocks a key: its dead messages stay dead, but no longer block it.
   * @throws OutboxMessageError, OutboxConfigurationError as `requeue` does
   */
  release(key: string, options?: ReleaseOptions): Promise<ReleaseReport> {
    return this.actions.release(key, options);
  }

  /**
   * Corrects a dead, waiting, blocked or scheduled message. The old version is kept in the audit, and `show()` returns it. The
   * message stays where it is unless `requeue` is set. With `dryRun: true` it only returns the differences.
   * @throws OutboxMessageError `INVALID_MESSAGE`, `PAYLOAD_TOO_LARGE`, `PAYLOAD_NOT_SERIALIZABLE`, `ENCRYPTION_FAILED`,
   * `DECRYPTION_FAILED`, `UNKNOWN_TRANSPORT`: the changes make no message, as at an enqueue
   * @throws OutboxError `EDIT_REFUSED`: it is ready, published, being sent or gone, or has changed meanwhile. Nothing was changed
   * @throws OutboxConfigurationError `SCHEMA_MISSING`: the tables have no audit yet
   */
  edit(id: string, changes: MessageChanges, options: EditOptions & DryRun): Promise<EditPreview>;
  edit(id: string, changes: MessageChanges, options?: EditOptions): Promise<EditReport>;
  async edit(
    id: string,
    changes: MessageChanges,
    options: EditOptions & Partial<DryRun> = {},
  ): Promise<EditPreview | EditReport> {
    const checked = checkedEdit(options);
    const { names, number } = await this.known(checked.transport, 'edit');
    const place = { id: checkedId('edit', id), number };
    return this.edited({ names, rewrite: this.sources.rewrite }, place, checkedChanges(changes), checked);
  }

  /**
   * Puts back the version from before an edit. This is an edit too: the current version is kept in the audit.
   * @param auditId of the edit: `show()` lists them
   * @throws OutboxMessageError `INVALID_MESSAGE`: it is no edit of this message, or of an earlier one with its id, or its old version was purged
   * @throws OutboxError, OutboxConfigurationError as `edit` does
   */
  restore(id: string, auditId: string, options: EditOptions & DryRun): Promise<EditPreview>;
  restore(id: string, auditId: string, options?: EditOptions): Promise<EditReport>;
  async restore(
    id: string,
    auditId: string,
    options: EditOptions & Partial<DryRun> = {},
  ): Promise<EditPreview | EditReport> {
    const checked = checkedEdit(options);
    const { names, number } = await this.known(checked.transport, 'restore');
    const restores = checkedAuditId('restore', 'the edit', auditId);
    const of = checkedId('restore', id);
    const before = await versionBefore(this.actions.operators, of, restores);
    const { transport } = before;
    if (number !== undefined && number !== transport) refuse('restore', 'that edit was of another transport');
    const rewrite = async (row: EditableRow): Promise<EditableContent> => restoredInto(row, before);
    return this.edited({ names, rewrite, restores }, { id: of, number: transport }, {}, checked);
  }

  /**
   * Deletes archived messages, and old versions of edited ones, for good. It never deletes an unpublished message: use `discard`
   * for dead ones. It runs in chunks; call it again to continue. With `dryRun: true` it only counts.
   * @throws OutboxMessageError, OutboxConfigurationError as `requeue` does
   * @throws OutboxError `ARCHIVE_MOVING`: messages wait beside the archive for their partition
   */
  purge(selection: PurgeSelection, options: BulkOptions & DryRun): Promise<PurgeCount>;
  purge(selection: PurgeSelection, options?: BulkOptions): Promise<PurgeReport>;
  async purge(
    selection: PurgeSelection,
    options: BulkOptions & Partial<DryRun> = {},
  ): Promise<PurgeReport | PurgeCount> {
    const meant = checkedPurge(selection);
    const checked = checkedOptions('purge', options);
    const dryRun = checkedFlag('purge', 'dryRun', options.dryRun);
    const { number } = await this.known(meant.transport, 'purge');
    const { operators, inspect } = this.actions;
    const sources = { operators, inspect, partitions: this.sources.store.partitions };
    const action = { meant, transport: number };
    return dryRun ? countPurged(sources, action) : runPurge(sources, action, checked, filterText(selection));
  }

  /**
   * Publishes archived messages again, each as a new message with its old id, in the order in which they were published, after
   * the messages that wait now. The archive stays as it is. With `dryRun: true` it only reports.
   * @throws OutboxMessageError `INVALID_MESSAGE`, `UNKNOWN_TRANSPORT`: the filter or an option is none
   * @throws OutboxConfigurationError `SCHEMA_MISSING`: the tables have no audit yet; nothing was inserted
   * @throws OutboxError `ARCHIVE_MOVING`: messages wait beside the archive for their partition
   */
  replay(selection: ReplaySelection, options: ReplayOptions & DryRun): Promise<ReplayPreview>;
  replay(selection: ReplaySelection, options?: ReplayOptions): Promise<ReplayReport>;
  async replay(
    selection: ReplaySelection,
    options: ReplayOptions & Partial<DryRun> = {},
  ): Promise<ReplayReport | ReplayPreview> {
    const meant = checkedReplay(selection);
    const checked = checkedReplayOptions(options);
    const dryRun = checkedFlag('replay', 'dryRun', options.dryRun);
    const { names } = await this.known(undefined, 'replay');
    const { store, options: own } = this.sources;
    const { operators, inspect } = this.actions;
    const changed = (): void => this.sources.changed('ready');
    const sources = { operators, inspect, partitions: store.partitions, options: own, names, changed };
    return dryRun ? preview(sources, meant, checked) : replay(sources, meant, checked);
  }

  /**
   * Stops publishing to a transport, or to one topic or key of it, in all instances. Messages in flight are settled; the others
   * wait in their order, and so do later ones of their keys.
   * Relays learn of it by notification, or with their next heartbeat, within a third of `lease`.
   * @throws OutboxMessageError `INVALID_MESSAGE`, `UNKNOWN_TRANSPORT`: the request is none, or 1,000 topics and keys are paused already
   * @throws OutboxConfigurationError `SCHEMA_MISSING`: the tables have no pauses yet
   */
  pause(request: PauseRequest): Promise<PauseOutcome> {
    return pause(this.pausing, request);
  }

  /** Ends the pause of the same transport, topic and key: waiting messages go out, in order. It throws as `pause` does. */
  resume(request: ResumeRequest): Promise<PauseOutcome> {
    return resume(this.pausing, request);
  }

  /** The pauses, oldest first. */
  pauses(): Promise<PauseEntry[]> {
    return pauseEntries(this.actions.operators);
  }

  /** @internal */ get pausing(): PauseSources {
    return {
      operators: this.actions.operators,
      numberOf: async (transport, subject) => (await this.known(transport, subject)).number as number,
      changed: () => this.sources.pausesChanged(),
    };
  }

  /** The actions of operators, newest first: who, what, when and how many. */
  async audit(page: PageOptions = {}): Promise<AuditPage> {
    const request = checkedAuditPage(page);
    return auditPage(await this.actions.operators.audit(request), request.limit);
  }

  /**
   * Ends an action of any process before its next chunk, also one whose process is gone.
   * @returns whether it was running
   */
  async stop(auditId: string): Promise<boolean> {
    const ended = { do: 'end', outcome: 'aborted', error: null } as const;
    return (await this.actions.operators.step(checkedAuditId('stop', 'auditId', auditId), ended)) !== undefined;
  }

  /** @internal */ async edited(
    how: Pick<EditSources, 'names' | 'rewrite' | 'restores'>,
    place: Parameters<typeof editMessage>[1],
    changes: MessageChanges,
    checked: CheckedEdit,
  ): Promise<EditPreview | EditReport> {
    const report = await editMessage(
      { ...how, operators: this.actions.operators, inspect: this.actions.inspect },
      place,
      changes,
      checked,
    );
    if (checked.requeue && !checked.dryRun) this.sources.changed('parked');
    return report;
  }

  /** @internal */ async explaining(names: KnownTransports['names']): Promise<ExplainSources> {
    const relays = await relaysOf(this.sources, names);
    const pauses = await this.actions.operators.pauses();
    return { names, relays, pauses, usesLeases: this.sources.options.coordination !== 'rowLock' };
  }

  /** Transports by number, also those that left the options; and the number of the one that is meant. @internal */
  async known(transport: string | undefined, subject: string): Promise<KnownTransports> {
    const known = await this.sources.store.setup.transports();
    const names = new Map([...known].map(([name, number]) => [number, name]));
    return { names, number: transport === undefined ? undefined : this.sources.numberOf(transport, known, subject) };
  }
}

/** What a message was; nothing where the tables have no audit yet: nobody could edit there. */
async function keptOf(operators: OperatorStore, id: string, previewBytes: number): Promise<AuditRow[]> {
  try {
    return await operators.audit({ before: null, limit: KEPT_SHOWN, edits: { id, previewBytes } });
  } catch (error) {
    if ((error as { code?: unknown }).code === 'SCHEMA_MISSING') return [];
    throw error;
  }
}

/** `undefined`: the database does not tell. */
const openTransactions = async ({ store }: AdminSources): Promise<number | undefined> =>
  store.diagnose?.ask('openTransactions');

const relaysOf = async ({ store }: AdminSources, names: KnownTransports['names']): Promise<SeenRelay[]> =>
  seeRelays(await store.leases.living('gone'), names);
