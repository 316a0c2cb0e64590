import type { MessagePage, MessageQuery, MessageSelection, OperatorReport } from '../../index.js';
import { CHUNK, inChunks, whileHeard, type ChunksReport } from '../chunks.js';
import type { CliCommand, CliContext, CliOption, Given } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage, type ExitCode } from '../exit-code.js';
import { filterOf, MESSAGE_OPTIONS, readCount } from '../message-options.js';
import { jsonLine } from '../terminal.js';
import { messages, number } from '../words.js';

/** What differs between requeue, discard and cancel. */
export interface Change {
  readonly name: 'requeue' | 'discard' | 'cancel';
  readonly summary: string;
  readonly states: readonly string[];
  /** `Requeued`. */
  readonly past: string;
  /** Asked before it begins; absent: nothing is lost by it. */
  readonly loss?: string;
  /** How many rows it would change, {@link MOST} at most. */
  count(outbox: OpenOutbox, selection: MessageSelection): Promise<number>;
}

/** The most that one run changes, as the library's calls. */
export const MOST = 100_000;
/** Ids that one line of JSON names of each kind. */
const MOST_NAMED = 1_000;

export function changeCommand(change: Change): CliCommand {
  return {
    name: change.name,
    summary: change.summary,
    args: '[ids...]',
    options: [
      { flags: '--state <state>', help: 'may be given several times', choices: change.states, many: true },
      ...MESSAGE_OPTIONS,
      { flags: '--limit <number>', help: `at most so many; default and most: ${number(MOST)}`, read: readLimit },
      ...optionsOf(change),
    ],
    run: (context, given) => run(change, context, given),
  };
}

function optionsOf({ loss }: Change): readonly CliOption[] {
  return loss === undefined ? CONFIRM_OPTIONS.filter(({ flags }) => flags === '--dry-run') : CONFIRM_OPTIONS;
}

function readLimit(text: string): number {
  const limit = readCount(text);
  return limit <= MOST ? limit : refuseUsage(`It must be ${MOST} at most.`);
}

async function run(change: Change, context: CliContext, given: Given): Promise<ExitCode> {
  const { name, loss, count } = change;
  const selection = checkedSelection(change, given);
  if (loss !== undefined) checkConfirmable(name, given, context.terminal);
  const outbox = await context.open();
  const limit = (given.options['limit'] as number | undefined) ?? MOST;
  const isWhole = selection.ids === undefined && given.options['limit'] === undefined;
  const changeAll = isWhole ? changeMeant : changeSome;
  if (given.options['yes'] === true) return changeAll(change, context, outbox, selection, limit);
  const counted = await count(outbox, { ...selection, limit });
  if (isDryRun(given)) return tellCount(change, context, counted);
  if (loss === undefined) return changeAll(change, context, outbox, selection, counted);
  if (counted === 0) return tellCount(change, context, counted);
  await confirm(`${name} ${messages(counted)}${counted < MOST ? '' : ' or more'}; ${loss}`, given, context.terminal);
  return changeAll(change, context, outbox, selection, limit);
}

function checkedSelection({ name }: Change, given: Given): MessageSelection {
  const selection = filterOf<MessageSelection>(given);
  if (Object.keys(selection).length === 0)
    refuseUsage(
      `Give ids, or one of --state, --key, --type, --topic, --transport: ${name} takes no messages by default.`,
    );
  if (selection.ids !== undefined && given.options['limit'] !== undefined)
    refuseUsage('--limit goes with a filter, not with ids.');
  return selection;
}

function tellCount({ name }: Change, { terminal, json }: CliContext, count: number): ExitCode {
  if (json) terminal.out(jsonLine({ action: name, dryRun: true, count }));
  else terminal.out(`${name} would change ${messages(count)}${count < MOST ? '' : ' or more'}.`);
  return count === 0 ? EXIT.nothing : EXIT.ok;
}

interface Changed extends ChunksReport {
  readonly tooLate: ReadonlySet<string>;
  readonly notFound: ReadonlySet<string>;
  readonly left: number;
}

/** What a filter means, as one action that stands in the audit. @param about how many they are, for the progress */
async function changeMeant(
  change: Change,
  context: CliContext,
  outbox: OpenOutbox,
  filter: MessageSelection,
  about: number,
): Promise<ExitCode> {
  const of = about < MOST ? ` of ${number(about)}` : '';
  const report = await whileHeard(context, outbox, (signal, heard) =>
    outbox.admin[change.name](filter, {
      ...{ chunkSize: CHUNK, signal },
      progress: ({ done }) => heard(`${change.past} ${number(done)}${of}`),
    }),
  );
  const interrupted = report.outcome === 'aborted';
  return tell(change, context, { done: report.done, interrupted, tooLate: NONE, notFound: NONE, left: 0 });
}
const NONE: ReadonlySet<string> = new Set();

/**
 * Ids, or some of what a filter means.
 * @param most of a requeue no more than were counted: what dies again meanwhile is not taken again and again
 */
async function changeSome(
  change: Change,
  context: CliContext,
  outbox: OpenOutbox,
  { ids, ...filter }: MessageSelection,
  most: number,
): Promise<ExitCode> {
  const [tooLate, notFound] = [new Set<string>(), new Set<string>()];
  let [left, at] = [0, 0];
  const chunks = { most: ids === undefined ? most : Infinity, verb: change.past };
  const report = await inChunks(context, chunks, async (size) => {
    const part = ids?.slice(at, (at += CHUNK));
    const step: OperatorReport = await outbox.answer(
      outbox.service[change.name](part === undefined ? { ...filter, limit: size } : { ...filter, ids: part }),
    );
    for (const id of step.tooLate) tooLate.add(id);
    for (const id of step.notFound) notFound.add(id);
    left = step.left;
    const isFull = step.left > 0 || step.done.length >= size;
    const more = ids === undefined ? isFull && step.done.length > 0 : at < ids.length;
    return { changed: step.done.length, more };
  });
  return tell(change, context, { ...report, tooLate, notFound, left });
}

function tell({ name, past }: Change, { terminal, json }: CliContext, changed: Changed): ExitCode {
  const { done, interrupted, left } = changed;
  const [tooLate, notFound] = [[...changed.tooLate], [...changed.notFound]];
  if (json) {
    const named = { tooLate: tooLate.slice(0, MOST_NAMED), notFound: notFound.slice(0, MOST_NAMED) };
    terminal.out(jsonLine({ action: name, done, ...named, left, interrupted }));
  } else {
    terminal.out(`${past} ${messages(done)}.`);
    if (tooLate.length > 0)
      terminal.say(
        `${messages(tooLate.length)} stayed: ready, being sent, or in a state that ${name} does not change.`,
      );
    if (notFound.length > 0)
      terminal.say(`${messages(notFound.length)} not found: ${notFound.slice(0, 10).join(', ')}`);
  }
  if (interrupted) terminal.say('Interrupted. What was done stays done: the same command goes on there.');
  else if (left > 0) terminal.say('There are more. The same command goes on there.');
  return interrupted ? EXIT.interrupted : done === 0 ? EXIT.nothing : EXIT.ok;
}

/** A count by looking, where the library has none. */
export async function countFound(outbox: OpenOutbox, { ids, ...query }: MessageQuery, most: number): Promise<number> {
  let count = 0;
  for (let at = 0; ids !== undefined && at < ids.length; at += PAGE)
    count += (await outbox.answer(outbox.admin.find({ ...query, ids: ids.slice(at, at + PAGE) }))).messages.length;
  let after: string | undefined | null = ids === undefined ? undefined : null;
  while (after !== null && count < most) {
    const more: { after?: string } = after === undefined ? {} : { after };
    const page: MessagePage = await outbox.answer(outbox.admin.find(query, { limit: PAGE, ...more }));
    count += page.messages.length;
    after = page.next;
  }
  return Math.min(count, most);
}
/** The most of one answer. */
const PAGE = 500;
