import { milliseconds } from '../../time/duration.js';
import type { ReplayPreview, ReplayReport, ReplaySelection } from '../../index.js';
import { CHUNK, whileHeard } from '../chunks.js';
import type { CliCommand, CliContext, Given } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { CliError, EXIT, isWrongInput, refuseUsage, type ExitCode } from '../exit-code.js';
import { filterOf, MESSAGE_OPTIONS, readCount } from '../message-options.js';
import { leftOut, tellPreview } from '../replay-preview.js';
import { jsonLine } from '../terminal.js';
import { messages, number } from '../words.js';

export const REPLAY: CliCommand = {
  name: 'replay',
  summary: 'Publish archived messages again, in the order in which they were published',
  args: '[ids...]',
  options: [
    ...MESSAGE_OPTIONS,
    { flags: '--from <time>', help: 'published then or later: 2026-11-26T08:00:00Z, or 2h ago', read: readTime },
    { flags: '--until <time>', help: 'published earlier; default: now', read: readTime },
    {
      flags: '--per-second <number>',
      help: 'messages a second, at most; default: 1000; "all" for no limit',
      read: readPace,
    },
    { flags: '--include-replays', help: 'include what an earlier replay published' },
    { flags: '--resume <audit-id>', help: 'continue an unfinished replay' },
    ...CONFIRM_OPTIONS,
  ],
  run,
};

async function run(context: CliContext, given: Given): Promise<ExitCode> {
  const selection = checkedSelection(given);
  checkConfirmable('replay', given, context.terminal);
  const outbox = await context.open();
  let about: number | undefined;
  if (given.options['yes'] !== true || isDryRun(given)) {
    const preview = await previewed(context, outbox, selection);
    if (context.json && (isDryRun(given) || preview.count === 0))
      context.terminal.out(jsonLine({ action: 'replay', dryRun: true, ...preview }));
    else if (!context.json) tellPreview(context, preview);
    if (preview.count === 0) return EXIT.nothing;
    if (isDryRun(given)) return EXIT.ok;
    const question = `publish ${messages(preview.count)} again, to all consumers of their destinations`;
    await confirm(question, given, context.terminal);
    about = preview.count;
  }
  const report = await replayed(context, outbox, { selection, given, about });
  const hint = report.done > 0 ? null : (await previewed(context, outbox, selection).catch(() => undefined))?.hint;
  if (hint) context.terminal.say(hint);
  return tell(context, report);
}

/** Options by their names in the library. */
const CONDITIONS = {
  from: 'publishedFrom',
  until: 'publishedUntil',
  includeReplays: 'includeReplays',
  resume: 'resume',
} as const;

function checkedSelection(given: Given): ReplaySelection {
  const selection: ReplaySelection = filterOf<ReplaySelection>(given);
  for (const [option, name] of Object.entries(CONDITIONS))
    if (given.options[option] !== undefined) Object.assign(selection, { [name]: given.options[option] });
  if ((selection.resume ?? selection.ids ?? selection.publishedFrom) === undefined)
    refuseUsage(
      'Give --from, or ids: nothing replays a whole archive by accident. All of it is --from 1970-01-01T00:00Z.',
    );
  return selection;
}

/** Without a zone a time would mean another one on another machine. */
function readTime(text: string): Date {
  const ago = milliseconds(text);
  if (ago !== undefined) return new Date(Date.now() - ago);
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d.*(?:Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(time))
    refuseUsage("It must be a time such as '2026-11-26T08:00:00Z', or how long ago, such as '2h'.");
  return new Date(time);
}

function readPace(text: string): number {
  return text === 'all' ? Infinity : readCount(text);
}

async function previewed(context: CliContext, outbox: OpenOutbox, selection: ReplaySelection): Promise<ReplayPreview> {
  try {
    return await whileHeard(context, outbox, (signal, heard) =>
      outbox.admin.replay(selection, {
        ...{ dryRun: true, signal },
        progress: ({ done }) => heard(`Found ${number(done)}`),
      }),
    );
  } catch (error) {
    throw context.interrupt.isAsked ? new CliError(EXIT.interrupted, 'Nothing was changed.') : error;
  }
}

interface Wanted {
  readonly selection: ReplaySelection;
  readonly given: Given;
  /** How many there are; `undefined`: nobody counted. */
  readonly about: number | undefined;
}

async function replayed(
  context: CliContext,
  outbox: OpenOutbox,
  { selection, given, about }: Wanted,
): Promise<ReplayReport> {
  const perSecond = given.options['perSecond'] as number | undefined;
  let begun: string | undefined = selection.resume;
  try {
    return await whileHeard(context, outbox, (signal, heard) =>
      outbox.admin.replay(selection, {
        ...{ chunkSize: CHUNK, signal },
        ...(perSecond === undefined ? {} : { perSecond }),
        progress: ({ auditId, done }) => {
          begun = auditId;
          heard(`Replayed ${number(done)}${about === undefined ? '' : ` of ${number(about)}`}`);
        },
      }),
    );
  } catch (error) {
    if (begun !== undefined && !isWrongInput(error))
      context.terminal.say(`What was done stays done. ${howToGoOn(begun)}`);
    throw error;
  }
}

const howToGoOn = (auditId: string): string => `To go on after it: npx nestjs-outbox replay --resume ${auditId}`;

function tell({ terminal, json }: CliContext, { auditId, done, skipped, outcome }: ReplayReport): ExitCode {
  const interrupted = outcome === 'aborted';
  if (json) terminal.out(jsonLine({ action: 'replay', auditId, done, skipped, interrupted }));
  else terminal.out(`Replayed ${messages(done)}${leftOut(skipped)}.`);
  if (interrupted) terminal.say(`Interrupted. What was done stays done. ${howToGoOn(auditId)}`);
  return interrupted ? EXIT.interrupted : done === 0 ? EXIT.nothing : EXIT.ok;
}
