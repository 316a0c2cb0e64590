import { printable } from '../observe/redact/printable.js';
import type { AuditAction, AuditRow, AuditOutcome } from '../store/operator-store.js';
import { checkedAuditId, checkedPage } from './checks.js';

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

export function checkedAuditPage(page: { limit?: number; after?: string }): { limit: number; before: string | null } {
  const { limit, after } = checkedPage('audit', page);
  return { limit, before: after === undefined ? null : checkedAuditId('audit', 'after', after) };
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
