import { refuse } from '../../options/refuse.js';
import { auditRow } from '../change-run.js';
import type { CheckedReplayOptions, ReplayReport } from './replay-options.js';
import { newPlan, planText, readPlan, storeFilter, takenOver, type ReplayPlan } from './replay-plan.js';
import { previewReplay, type ReplayPreview } from './replay-preview.js';
import { runReplay, type ReplayAction, type ReplaySources } from './replay-run.js';
import type { CheckedReplay } from './replay-selection.js';

/** What a replay would do. */
export async function preview(
  sources: ReplaySources,
  meant: CheckedReplay,
  options: CheckedReplayOptions,
): Promise<ReplayPreview> {
  const { plan } = await known(sources, meant);
  return previewReplay(sources, actionOf(sources, plan), options);
}

/** Begins a replay, or goes on with one. */
export async function replay(
  sources: ReplaySources,
  meant: CheckedReplay,
  options: CheckedReplayOptions,
): Promise<ReplayReport> {
  const { plan, state } = await known(sources, meant);
  const action = actionOf(sources, plan);
  const auditId =
    meant.resume === undefined
      ? await sources.operators.begin({ action: 'replay', actor: options.actor, filter: planText(plan) })
      : await takeOver(sources, meant.resume, state, plan);
  return runReplay(sources, auditId, action, options);
}

/** The plan, and of one that is gone on with how its row has it. */
async function known(
  { inspect, operators }: ReplaySources,
  meant: CheckedReplay,
): Promise<{ plan: ReplayPlan; state: string }> {
  if (meant.resume === undefined) return { plan: newPlan(meant, (await inspect.bounds()).now), state: '' };
  const audit = String(BigInt(meant.resume));
  const row = await auditRow(operators, audit);
  return { plan: takenOver(readPlan(audit, row)), state: row?.filter ?? '' };
}

/** Where nobody else did meanwhile. */
async function takeOver({ operators }: ReplaySources, resume: string, from: string, plan: ReplayPlan): Promise<string> {
  const audit = String(BigInt(resume));
  if ((await operators.step(audit, { do: 'reopen', from, to: planText(plan) })) !== undefined) return audit;
  return refuse('replay', `replay ${audit} went on meanwhile`, 'INVALID_MESSAGE', 'Look at audit(), and try again.');
}

function actionOf({ names, options }: ReplaySources, plan: ReplayPlan): ReplayAction {
  const { transport } = plan.conditions;
  if (transport === undefined) return { plan, filter: storeFilter(plan, undefined) };
  const [number] = [...names].find(([, name]) => name === transport) ?? [];
  if (number !== undefined && options.transports.has(transport)) return { plan, filter: storeFilter(plan, number) };
  const hint = `The options of this process have ${[...options.transports.keys()].join(', ')}.`;
  refuse('replay', `there is no transport '${transport.slice(0, 100)}' here`, 'UNKNOWN_TRANSPORT', hint);
}
