import type { ChangeReport, MessageSelection } from '../../index.js';
import { CHUNK, whileHeard } from '../chunks.js';
import type { CliCommand, CliContext, CliOption, Given } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage, type ExitCode } from '../exit-code.js';
import { filterOf, MESSAGE_OPTIONS, readCount } from '../message-options.js';
import { jsonLine } from '../terminal.js';
import { messages, number } from '../words.js';

/** What differs between requeue, discard and cancel. */
interface Change {
  readonly name: 'requeue' | 'discard' | 'cancel';
  readonly summary: string;
  readonly states: readonly string[];
  /** `Requeued`. */
  readonly past: string;
  /** Asked before it begins; absent: nothing is lost by it. */
  readonly loss?: string;
}

/** The most that are counted before it begins. */
const MOST_COUNTED = 100_000;
/** Ids that one line of JSON names of each kind. */
const MOST_NAMED = 1_000;

export const REQUEUE = changeCommand({
  name: 'requeue',
  summary: 'Try dead messages again, in their old place in the order',
  states: ['dead', 'waiting', 'blocked'],
  past: 'Requeued',
});
export const DISCARD = changeCommand({
  name: 'discard',
  summary: 'Delete dead messages; messages they blocked continue',
  states: ['dead', 'waiting', 'blocked'],
  past: 'Discarded',
  loss: 'they are deleted, and never sent',
});
export const CANCEL = changeCommand({
  name: 'cancel',
  summary: 'Delete messages that have not been published',
  states: ['ready', 'scheduled', 'waiting', 'blocked', 'dead'],
  past: 'Cancelled',
  loss: 'they are deleted, and never sent',
});

function changeCommand(change: Change): CliCommand {
  return {
    name: change.name,
    summary: change.summary,
    args: '[ids...]',
    options: [
      { flags: '--state <state>', help: 'may be given several times', choices: change.states, many: true },
      ...MESSAGE_OPTIONS,
      { flags: '--limit <number>', help: 'limit; default: all', read: readCount },
      ...optionsOf(change),
    ],
    run: (context, given) => run(change, context, given),
  };
}

function optionsOf({ loss }: Change): readonly CliOption[] {
  return loss === undefined ? CONFIRM_OPTIONS.filter(({ flags }) => flags === '--dry-run') : CONFIRM_OPTIONS;
}

async function run(change: Change, context: CliContext, given: Given): Promise<ExitCode> {
  const { name, loss } = change;
  const selection = checkedSelection(change, given);
  if (loss !== undefined) checkConfirmable(name, given, context.terminal);
  const outbox = await context.open();
  const limit = given.options['limit'] as number | undefined;
  const isNamed = loss === undefined && selection.ids !== undefined && !isDryRun(given);
  if (given.options['yes'] === true || isNamed) return changeMeant(change, context, outbox, selection, limit);
  const most = selection.ids === undefined ? Math.min(limit ?? MOST_COUNTED, MOST_COUNTED) : undefined;
  const counting = outbox.admin[name](selection, { dryRun: true, ...(most === undefined ? {} : { limit: most }) });
  const { count } = await outbox.answer(counting);
  const counted = `${messages(count)}${count === MOST_COUNTED ? ' or more' : ''}`;
  if (isDryRun(given)) return tellCount(change, context, count, counted);
  if (loss !== undefined) {
    if (count === 0 && selection.ids === undefined) return tellCount(change, context, count, counted);
    await confirm(`${name} ${counted}; ${loss}`, given, context.terminal);
  }
  return changeMeant(change, context, outbox, selection, limit, count < MOST_COUNTED ? count : undefined);
}

function checkedSelection({ name }: Change, given: Given): MessageSelection {
  const selection = filterOf<MessageSelection>(given);
  if (Object.keys(selection).length === 0)
    refuseUsage(
      `Give ids, or one of --state, --key, --type, --topic, --transport: ${name} takes no messages by default.`,
    );
  if (selection.ids === undefined) return selection;
  if (given.options['limit'] !== undefined) refuseUsage('--limit goes with a filter, not with ids.');
  // An id in the wrong line of a list must not cost a message that has not failed.
  return name === 'discard' && selection.state === undefined ? { ...selection, state: ['dead'] } : selection;
}

function tellCount({ name }: Change, { terminal, json }: CliContext, count: number, counted: string): ExitCode {
  if (json) terminal.out(jsonLine({ action: name, dryRun: true, count }));
  else terminal.out(`${name} would change ${counted}.`);
  return count === 0 ? EXIT.nothing : EXIT.ok;
}

/** @param about how many they are, for the progress */
async function changeMeant(
  change: Change,
  context: CliContext,
  outbox: OpenOutbox,
  selection: MessageSelection,
  limit: number | undefined,
  about?: number,
): Promise<ExitCode> {
  const of = about === undefined ? '' : ` of ${number(about)}`;
  const report = await whileHeard(context, outbox, (signal, heard) =>
    outbox.admin[change.name](selection, {
      ...{ chunkSize: CHUNK, signal, ...(limit === undefined ? {} : { limit }) },
      progress: ({ done }) => heard(`${change.past} ${number(done)}${of}`),
    }),
  );
  return tell(change, context, report);
}

function tell({ name, past }: Change, { terminal, json }: CliContext, report: ChangeReport): ExitCode {
  const { auditId, done, skipped, more, tooLate, notFound } = report;
  const interrupted = report.outcome === 'aborted';
  if (json) {
    const named = { tooLate: tooLate.slice(0, MOST_NAMED), notFound: notFound.slice(0, MOST_NAMED) };
    terminal.out(jsonLine({ action: name, done, skipped, ...named, more, interrupted, auditId }));
  } else {
    terminal.out(`${past} ${messages(done)}.`);
    const stayed = Math.max(tooLate.length, skipped);
    const hint = name === 'discard' ? ' cancel deletes what has not failed.' : '';
    if (stayed > 0)
      terminal.say(`${messages(stayed)} stayed: ready, being sent, or in a state that ${name} does not change.${hint}`);
    if (notFound.length > 0)
      terminal.say(`${messages(notFound.length)} not found: ${notFound.slice(0, 10).join(', ')}`);
  }
  if (interrupted) terminal.say('Interrupted. What was done stays done. Run the same command to continue.');
  else if (more) terminal.say('There are more. Run the same command to continue.');
  return interrupted ? EXIT.interrupted : done === 0 ? EXIT.nothing : EXIT.ok;
}
