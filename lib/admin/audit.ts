import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { printable } from '../observe/redact/printable.js';
import type { AuditAction, AuditRow, AuditOutcome } from '../store/bulk-store.js';

/** One action of an operator. Times are the database's. */
export interface AuditEntry {
  readonly id: string;
  readonly action: AuditAction;
  /** As the caller said: no proof of who it was. */
  readonly by: string;
  /** What was asked for, as JSON text. */
  readonly filter: string;
  readonly begunAt: Date | null;
  /** The last time that it wrote anything. */
  readonly lastAt: Date | null;
  readonly endedAt: Date | null;
  /** Messages that were changed, each counted once for each of its transports. */
  readonly done: number;
  /** Those that were found and not changed. */
  readonly skipped: number;
  /** `running` is also said of one whose process is gone: then `lastAt` stays as it is. */
  readonly outcome: AuditOutcome | 'running';
  /** Why it failed. */
  readonly error: string | null;
}
/** The last ones first. */
export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  /** The cursor of the next page; `null`: this is the last one. */
  readonly next: string | null;
}

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 500;

export function checkedAuditPage(page: { limit?: number; after?: string }): { limit: number; after: string | null } {
  if (typeof page !== 'object' || page === null) refuse('audit', `a page must be an object, not ${typeName(page)}`);
  refuseUnknown(page, ['limit', 'after'], 'audit');
  const { limit = DEFAULT_LIMIT, after } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    refuse('audit', `limit must be a whole number from 1 to ${MAX_LIMIT}`);
  return { limit, after: after === undefined ? null : checkedAuditId('audit', 'after', after) };
}

export function checkedAuditId(subject: string, name: string, id: unknown): string {
  if (typeof id === 'string' && /^\d{1,18}$/.test(id)) return id;
  return refuse(subject, `${name} must be the id of an entry of audit()`);
}

export function auditPage(rows: readonly AuditRow[], limit: number): AuditPage {
  return { entries: rows.map(toEntry), next: rows.length < limit ? null : (rows.at(-1)?.id ?? null) };
}

/** Another program may have written anything. */
function toEntry({ id, action, actor, filter, begunAt, touchedAt, endedAt, ...row }: AuditRow): AuditEntry {
  const { done, skipped, outcome, error } = row;
  return {
    id,
    action: printable(action) as AuditAction,
    by: printable(actor),
    filter: printable(filter),
    begunAt,
    lastAt: touchedAt,
    endedAt,
    done,
    skipped,
    outcome: outcome === null ? 'running' : (printable(outcome) as AuditOutcome),
    error: error === null ? null : printable(error),
  };
}
