import { randomBytes } from 'node:crypto';
import { refuse } from '../../options/refuse.js';
import type { AuditRow } from '../../store/operator-store.js';
import { parsed } from '../content-view.js';
import type { CheckedReplay, ReplayConditions } from './replay-selection.js';

/** What a replay means, and how far it is. As JSON it is the `filter` of its row in the audit, and all that a resumption needs. */
export interface ReplayPlan {
  readonly conditions: ReplayConditions;
  readonly from: Date | null;
  readonly before: Date;
  /** Behind which row it goes on. */
  readonly after: string | null;
  /** Of the call that runs it: one that goes on takes it over by another one. */
  readonly run: string;
}

/** @param begun the database's time: what is published later is not part of it */
export function newPlan(
  { conditions, from, until }: Extract<CheckedReplay, { from: unknown }>,
  begun: Date,
): ReplayPlan {
  const before = until !== null && until < begun ? until : begun;
  return { conditions, from, before, after: null, run: newRun() };
}

export const takenOver = (plan: ReplayPlan): ReplayPlan => ({ ...plan, run: newRun() });
const newRun = (): string => randomBytes(6).toString('hex');

export function planText({ conditions, from, before, after, run }: ReplayPlan): string {
  const { includeReplays, ...rest } = conditions;
  return JSON.stringify({
    ...rest,
    ...(includeReplays ? { includeReplays } : {}),
    publishedFrom: from,
    publishedUntil: before,
    after,
    run,
  });
}

/** @param row of the audit, where it is there. @throws OutboxMessageError `INVALID_MESSAGE`: it cannot be gone on with */
export function readPlan(auditId: string, row: AuditRow | undefined): ReplayPlan {
  if (row?.id !== auditId) refuse('replay', `there is no action ${auditId} in the audit`);
  if (row.action !== 'replay') refuse('replay', `action ${auditId} is no replay but a ${row.action}`);
  if (row.outcome === 'done') refuse('replay', `replay ${auditId} has come to its end: there is nothing to resume`);
  const {
    publishedFrom,
    publishedUntil,
    after,
    run,
    includeReplays = false,
    ...rest
  } = Object(parsed(row.filter, JSON.parse)) as Record<string, unknown>;
  const before = new Date(String(publishedUntil));
  const isPlan = typeof run === 'string' && (after === null || typeof after === 'string');
  if (!isPlan || Number.isNaN(before.getTime()))
    refuse('replay', `the audit of replay ${auditId} does not say how far it came`);
  return {
    conditions: { ...rest, includeReplays: includeReplays === true },
    from: typeof publishedFrom === 'string' ? new Date(publishedFrom) : null,
    before,
    after,
    run,
  };
}

/** @param transport the number of the one that is meant */
export function storeFilter({ conditions, from, before }: ReplayPlan, transport: number | undefined) {
  const { includeReplays: _, transport: __, ...rest } = conditions;
  return { ...rest, ...(transport === undefined ? {} : { transport }), published: { from, before } };
}
