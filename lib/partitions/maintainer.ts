import type { OutboxHooks } from '../observe/events.js';
import { errorText } from '../observe/redact/error-text.js';
import { misconfigured, OutboxError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import {
  isCovered,
  type ArchiveLayout,
  type ArchivePartition,
  type PartitionSession,
  type PartitionStore,
  type PlannedPartition,
} from '../store/partitions/partition-store.js';
import { partitionAt } from '../store/partitions/period.js';
import { isOwn, isToBeMoved, keepFrom, missingPartitions, oldPartitions, type PartitionRules } from './plan.js';
import { resolveRequest, type PartitionRequest } from './request.js';

/** The changes of a pass, all of them committed. */
export interface PartitionReport {
  /** `skipped`: nothing was looked at, `why` says for what reason. */
  readonly outcome: 'done' | 'skipped';
  readonly why: string | null;
  /** Names of partitions. */
  readonly created: readonly string[];
  readonly dropped: readonly string[];
  /** Rows that had landed in the catch-all, or were in the plain table, and have their partition now. */
  readonly moved: number;
  /** Those of them that were older than the retention. */
  readonly removed: number;
  readonly notDone: readonly PartitionNotDone[];
}
/** The changes that a pass would make by the catalog alone, without a look at rows. */
export interface PartitionPlan {
  readonly kind: 'plain' | 'partitioned';
  /** Names of partitions, without those that rows in the catch-all would need. */
  readonly create: readonly string[];
  readonly drop: readonly string[];
}
/** The next pass tries it again. */
export interface PartitionNotDone {
  readonly change: 'create' | 'drop' | 'setAside' | 'move';
  /** `null`: the catch-all, or what waits beside the archive. */
  readonly partition: string | null;
  readonly why: string;
}
export interface PartitionStatus {
  readonly kind: 'plain' | 'partitioned';
  /** The problem of the partitioning, in words. */
  readonly problems: readonly string[];
  /** Oldest first; `to` is `null` where it has no end. `isOwn`: made by a maintainer, so that it is dropped when it is old. */
  readonly partitions: readonly {
    readonly name: string;
    readonly from: Date | null;
    readonly to: Date | null;
    readonly isOwn: boolean;
  }[];
  /** Whether what is published now has a partition. If not, it lands in the catch-all. */
  readonly isCovered: boolean;
  /** Whether rows wait beside the archive for their partition. The view and `find` do not show them. */
  readonly isMoving: boolean;
}

/** Rows per transaction. */
const BATCH = 1_000;
const NO_STORE = 'The store of this outbox has no partitions.';
const NOT_YET = 'rows of an earlier change are moved first';
const BUSY = 'another maintainer has the lock of these tables';
const GOES_ON = { aborted: false } as const;

/** A signal that ends a pass after the step in hand. */
type Stop = Pick<AbortSignal, 'aborted'>;
interface Work {
  readonly stop: Stop;
  readonly created: string[];
  readonly dropped: string[];
  moved: number;
  removed: number;
  readonly notDone: PartitionNotDone[];
  readonly errors: unknown[];
}

/**
 * Keeps the partitions of the archive: makes those of the coming periods, moves into their partitions what landed in the
 * catch-all, and drops those that are older than the retention. One works at a time, whatever process calls it.
 */
export class OutboxPartitionMaintainer {
  /** @internal */
  constructor(
    /** @internal */ readonly store: { readonly partitions?: PartitionStore | undefined },
    /** @internal */ readonly hooks: OutboxHooks,
    /** @internal */ readonly options: ResolvedOptions['partitions'],
  ) {}

  /** How the archive is made, by the catalog: any login that may see the tables can ask. */
  async status(): Promise<PartitionStatus> {
    const layout = await this.demandStore().layout();
    const { kind, problems, partitions } = layout;
    return {
      kind,
      problems,
      partitions: partitions.map((partition) => ({
        name: partition.name,
        from: partition.from === null ? null : new Date(partition.from),
        to: partition.to === Infinity ? null : new Date(partition.to),
        isOwn: isOwn(partition),
      })),
      isCovered: isCovered(layout),
      isMoving: layout.aside,
    };
  }

  /**
   * Which partitions a pass would make and drop; it changes nothing, and takes no lock.
   * @throws OutboxConfigurationError as `runOnce`
   */
  async plan(request: PartitionRequest = {}): Promise<PartitionPlan> {
    const rules = resolveRequest(request, this.options);
    const layout = await this.demandStore().layout();
    const { kind } = layout;
    if (kind === 'plain') return { kind, create: [], drop: [] };
    refuseOther(layout);
    const names = (partitions: readonly ArchivePartition[]): string[] => partitions.map(({ name }) => name);
    return {
      kind,
      create: names(missingPartitions(layout, rules, undefined)),
      drop: names(oldPartitions(layout, rules).filter(isOwn)),
    };
  }

  /**
   * One pass. A table that others hold is asked for a few times, a lock timeout each, and then left for the next pass
   * (`notDone`). When a step fails for another reason the other steps are still made, then the error is thrown with the `report`.
   * @param request rules of this pass; default: the options `partitions`
   * @param options.signal ends the pass after the step in hand; what is left is for the next one
   * @throws OutboxConfigurationError `INVALID_OPTIONS`: a rule is wrong, or there is no period; `SCHEMA_MISMATCH`: the archive is
   *   partitioned in another way, and nothing was changed
   */
  async runOnce(
    request: PartitionRequest = {},
    { signal = GOES_ON }: { readonly signal?: Stop } = {},
  ): Promise<PartitionReport> {
    const rules = resolveRequest(request, this.options);
    const work: Work = { stop: signal, created: [], dropped: [], moved: 0, removed: 0, notDone: [], errors: [] };
    const why = await this.locked(rules.lockTimeout, (session) => this.pass(session, rules, work));
    const { errors, stop: _, ...done } = work;
    const report: PartitionReport = { outcome: why === undefined ? 'done' : 'skipped', why: why ?? null, ...done };
    this.hooks.emit('partitionsMaintained', report);
    if (errors.length > 0)
      throw Object.assign(new AggregateError(errors, 'Partitions were maintained in part.'), { report });
    return report;
  }

  /**
   * Makes a plain archive a partitioned one, while relays go on: a new table takes its name. What it holds is moved into
   * partitions by the passes that follow; until then the view and `find` do not show it.
   * @returns `skipped` when there was nothing to do, or another maintainer works
   * @throws OutboxError `TIMEOUT` when transactions of others have the table: nothing was changed
   */
  async convert(
    request: PartitionRequest = {},
  ): Promise<{ readonly outcome: 'done' | 'skipped'; readonly why: string | null }> {
    const rules = resolveRequest(request, this.options);
    const why = await this.locked(rules.lockTimeout, async (session) => {
      const layout = await session.layout();
      const { kind, aside } = layout;
      if (kind === 'partitioned') return 'the archive is partitioned already';
      if (aside) return 'rows of an earlier change wait beside the archive, in the table that ends with archive_aside';
      this.hooks.emit('partitionChange', { change: 'convert', partition: null });
      await session.convert(missingPartitions(layout, rules, await session.span('archive')));
      return undefined;
    });
    return { outcome: why === undefined ? 'done' : 'skipped', why: why ?? null };
  }

  /** @internal @returns why nothing was done */
  async locked(
    lockTimeout: number,
    work: (session: PartitionSession) => Promise<string | undefined>,
  ): Promise<string | undefined> {
    const answer = await this.demandStore().maintain(lockTimeout, async (session) => ({
      why: await work(session),
    }));
    return answer === undefined ? BUSY : answer.why;
  }

  /** @internal */
  async pass(session: PartitionSession, rules: PartitionRules, work: Work): Promise<string | undefined> {
    const layout = await session.layout();
    if (layout.kind === 'plain') return 'the archive is a plain table, which the cleaner cleans';
    refuseOther(layout);
    await this.make(session, rules, layout, work);
    const keep = keepFrom(rules, layout.now);
    for (const partition of oldPartitions(layout, rules)) {
      if (work.stop.aborted) break;
      await this.drop(session, partition, keep, work);
    }
    await this.step(work, 'move', null, () => this.move(session, keep, work)); // last: it may take hours
    return undefined;
  }

  /** @internal */
  async make(session: PartitionSession, rules: PartitionRules, layout: ArchiveLayout, work: Work): Promise<void> {
    const { now } = layout;
    if (isToBeMoved(await session.span('catchAll'), rules, now)) {
      if (layout.aside) return void work.notDone.push({ change: 'setAside', partition: null, why: NOT_YET });
      const current = partitionAt(now, rules.period);
      const missing = missingPartitions(layout, rules, undefined).find(({ name }) => name === current.name);
      const isDone = await this.step(work, 'setAside', null, () => session.setAside(missing));
      if (isDone && missing !== undefined && !layout.appendOnly) work.created.push(missing.name);
    }
    const after = await session.layout();
    const aside = after.aside ? await session.span('aside') : undefined;
    for (const partition of missingPartitions(after, rules, aside)) {
      if (work.stop.aborted) return;
      const isDone = await this.create(session, partition, work);
      if (!isDone && (after.appendOnly || work.errors.length > 0)) return; // behind it the next one would have its rows, or fail too
    }
  }

  /** @internal @returns false: the table was not free, or the step failed */
  async create(session: PartitionSession, partition: PlannedPartition, work: Work): Promise<boolean> {
    const { name } = partition;
    return this.step(work, 'create', name, async () => {
      const why = await session.create(partition);
      if (why === undefined) work.created.push(name);
      else work.notDone.push({ change: 'create', partition: name, why });
    });
  }

  /** @internal */
  async move(session: PartitionSession, from: number, work: Work): Promise<void> {
    while (!work.stop.aborted) {
      const batch = await session.moveBack(BATCH, from);
      if (batch === undefined) return;
      work.moved += batch.moved;
      work.removed += batch.removed;
    }
  }

  /** @internal */
  async drop(session: PartitionSession, partition: ArchivePartition, before: number, work: Work): Promise<void> {
    const { name } = partition;
    const keep = (why: string): void => void work.notDone.push({ change: 'drop', partition: name, why });
    if (!isOwn(partition)) return keep('its name and its bounds are not those of a partition of the maintainer');
    await this.step(work, 'drop', name, async () => {
      if (await session.drop(name, before)) work.dropped.push(name);
      else keep('it has a row that is younger than the retention');
    });
  }

  /** @internal @returns whether it was done */
  async step(
    work: Work,
    change: PartitionNotDone['change'],
    partition: string | null,
    run: () => Promise<void>,
  ): Promise<boolean> {
    if (change !== 'move') this.hooks.emit('partitionChange', { change, partition });
    try {
      await run();
      return true;
    } catch (error) {
      work.notDone.push({ change, partition, why: errorText(error) });
      if (!(error instanceof OutboxError && error.code === 'TIMEOUT')) work.errors.push(error);
      return false;
    }
  }

  /** @internal */
  demandStore(): PartitionStore {
    if (this.store.partitions === undefined) misconfigured(NO_STORE, undefined, 'UNSUPPORTED_DATABASE');
    return this.store.partitions;
  }
}

function refuseOther({ problems }: ArchiveLayout): void {
  if (problems.length === 0) return;
  const text = `The archive is not partitioned as the maintainer needs it: ${problems.join('; ')}.`;
  misconfigured(text, 'Nothing was changed.', 'SCHEMA_MISMATCH');
}
