import { OutboxMessageError } from '../../outbox.errors.js';
import { refuse } from '../../options/refuse.js';
import type { BulkStore } from '../../store/bulk-store.js';
import type { CheckedReplayOptions, ReplayReport } from './replay-options.js';
import { newPlan, planText, readPlan, storeFilter, takenOver, type ReplayPlan } from './replay-plan.js';
import { previewReplay, type ReplayPreview } from './replay-preview.js';
import { runReplay, type ReplayAction, type ReplaySources } from './replay-run.js';
import type { CheckedReplay } from './replay-selection.js';

interface Sources extends ReplaySources {
  readonly bulk: Pick<BulkStore, 'bounds' | 'begin' | 'audit'>;
}

/** What a replay would do. */
export async function preview(
  sources: Sources,
  meant: CheckedReplay,
  options: CheckedReplayOptions,
): Promise<ReplayPreview> {
  const { plan } = await known(sources.bulk, meant);
  return previewReplay(sources, actionOf(sources, plan), options);
}

/** Begins a replay, or goes on with one. */
export async function replay(
  sources: Sources,
  meant: CheckedReplay,
  options: CheckedReplayOptions,
): Promise<ReplayReport> {
  const { plan, state } = await known(sources.bulk, meant);
  const action = actionOf(sources, plan);
  const auditId =
    meant.resume === undefined
      ? await sources.bulk.begin({ action: 'replay', actor: options.actor, filter: planText(plan) })
      : await takeOver(sources, meant.resume, state, plan);
  return runReplay(sources, auditId, action, options);
}

/** The plan, and of one that is gone on with how its row has it. */
async function known(bulk: Sources['bulk'], meant: CheckedReplay): Promise<{ plan: ReplayPlan; state: string }> {
  if (meant.resume === undefined) return { plan: newPlan(meant, (await bulk.bounds()).now), state: '' };
  const [row] = await bulk.audit(String(BigInt(meant.resume) + 1n), 1);
  return { plan: takenOver(readPlan(String(BigInt(meant.resume)), row)), state: row?.filter ?? '' };
}

/** Where nobody else did meanwhile. */
async function takeOver({ store }: Sources, resume: string, from: string, plan: ReplayPlan): Promise<string> {
  const audit = String(BigInt(resume));
  if (await store.resume({ audit, from, to: planText(plan) })) return audit;
  return refuse('replay', `replay ${audit} went on meanwhile`, 'INVALID_MESSAGE', 'Look at audit(), and try again.');
}

function actionOf({ names, options }: Sources, plan: ReplayPlan): ReplayAction {
  const { transport } = plan.conditions;
  if (transport === undefined) return { plan, filter: storeFilter(plan, undefined) };
  const [number] = [...names].find(([, name]) => name === transport) ?? [];
  if (number !== undefined && options.transports.has(transport)) return { plan, filter: storeFilter(plan, number) };
  throw new OutboxMessageError(
    'UNKNOWN_TRANSPORT',
    `replay: there is no transport '${transport.slice(0, 100)}' here.`,
    {
      hint: `The options of this process have ${[...options.transports.keys()].join(', ')}.`,
    },
  );
}
