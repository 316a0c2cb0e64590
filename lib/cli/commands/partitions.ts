import type { PartitionPlan, PartitionReport, PartitionRequest, PartitionStatus } from '../../index.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand, CliContext, Given } from '../command.js';
import { readDuration } from '../common-options.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage, type ExitCode } from '../exit-code.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { iso, messages } from '../words.js';

type Action = (context: CliContext, given: Given) => Promise<ExitCode>;

const ACTIONS: Readonly<Record<string, Action>> = { status, run, convert };

export const PARTITIONS: CliCommand = {
  name: 'partitions',
  summary: 'Maintain an archive in partitions: status, run, convert',
  args: '[action]',
  argChoices: Object.keys(ACTIONS),
  options: [
    {
      flags: '--period <period>',
      help: 'the period of a partition; needed if the module does not set it',
      choices: ['hour', 'day', 'month'],
    },
    { flags: '--lookahead <duration>', help: 'how far ahead partitions are made', read: readDuration },
    {
      flags: '--retention <duration>',
      help: "run: drop partitions that ended longer ago than this, such as 90d, or 'never'; default: the module's, else never",
      read: readRetention,
    },
    {
      flags: '--lock-timeout <duration>',
      help: 'how long a change waits for its lock; default: 1s',
      read: readDuration,
    },
    ...CONFIRM_OPTIONS,
  ],
  run: async (context, given) => (ACTIONS[given.args[0] ?? 'status'] as Action)(context, given),
};

/** Without a look at the other tables: the login may see no more than the archive. */
const opening = ({ open }: CliContext): Promise<OpenOutbox> => open({ checked: false });

async function status(context: CliContext): Promise<ExitCode> {
  const { terminal, json } = context;
  const outbox = await opening(context);
  const found = await outbox.answer(outbox.partitions.status());
  if (json) terminal.out(jsonLine(found));
  else {
    for (const line of found.kind === 'plain' ? [PLAIN] : tableLines(found.partitions, COLUMNS, terminal))
      terminal.out(line);
    for (const line of warningsOf(found)) terminal.say(printable(line));
  }
  return found.kind === 'partitioned' && found.isCovered && found.problems.length === 0 ? EXIT.ok : EXIT.nothing;
}

const PLAIN = 'The archive is a plain table, which the cleaner cleans.';
const COLUMNS: readonly Column<PartitionStatus['partitions'][number]>[] = [
  { title: 'PARTITION', cell: ({ name }) => name, mayBeCut: true },
  { title: 'FROM', cell: ({ from }) => iso(from) || '-' },
  { title: 'TO', cell: ({ to }) => iso(to) || '-' },
  { title: 'DROPPED WHEN OLD', cell: ({ isOwn }) => (isOwn ? 'yes' : 'no'), mayBeLeftOut: true },
];

function warningsOf({ kind, problems, isCovered, isMoving }: PartitionStatus): string[] {
  return [
    ...problems,
    ...(kind === 'partitioned' && !isCovered ? ['No partition covers now: run partitions run.'] : []),
    ...(isMoving ? ['Messages wait beside the archive for their partition: run partitions run.'] : []),
  ];
}

async function run(context: CliContext, given: Given): Promise<ExitCode> {
  const { terminal, json, interrupt } = context;
  checkConfirmable('partitions run', given, terminal);
  const outbox = await opening(context);
  const request = requestOf(given, outbox);
  const plan = await outbox.answer(outbox.partitions.plan(request));
  if (isDryRun(given)) return tellPlan(plan, context);
  if (plan.kind === 'plain' && !json) return nothing(PLAIN, context);
  const { drop } = plan;
  if (drop.length > 0) await confirm(`drop ${listed(drop)} with all messages in them`, given, terminal);
  // It ends by itself: each statement has a limit, and there may be many.
  const signal = { get aborted() { return interrupt.isAsked; } }; // prettier-ignore
  const report = await interrupt
    .holding(() => outbox.partitions.runOnce(request, { signal }))
    .catch((error: unknown) => {
      const { report: part } = Object(error) as { report?: PartitionReport };
      if (part !== undefined) tellPass(part, context); // what was dropped is told, whatever failed behind it
      throw error;
    });
  tellPass(report, context);
  if (plan.kind === 'plain') return EXIT.nothing;
  if (interrupt.isAsked) return EXIT.interrupted;
  return report.notDone.length > 0 ? EXIT.failed : EXIT.ok;
}

function tellPlan({ kind, create, drop }: PartitionPlan, context: CliContext): ExitCode {
  const { terminal, json } = context;
  if (json) terminal.out(jsonLine({ action: 'partitions', dryRun: true, create, drop }));
  if (kind === 'plain') return nothing(PLAIN, context);
  if (!json) terminal.out(`It would make ${listed(create)}, and drop ${listed(drop)}.`);
  return EXIT.ok;
}

function tellPass(report: PartitionReport, { terminal, json, interrupt }: CliContext): void {
  if (json) terminal.out(jsonLine({ action: 'partitions', interrupted: interrupt.isAsked, ...report }));
  else for (const line of linesOf(report)) terminal.out(line);
  for (const { change, partition, why } of report.notDone)
    terminal.say(printable(`Not done: ${change} ${partition ?? 'the catch-all'}: ${why}`));
}

function linesOf({ outcome, why, created, dropped, moved, removed }: PartitionReport): string[] {
  if (outcome === 'skipped') return [`Skipped: ${why}.`];
  const rest = moved + removed === 0 ? [] : [`Moved ${messages(moved)} into their partitions, removed ${removed} old.`];
  return [`Made ${listed(created)}, dropped ${listed(dropped)}.`, ...rest];
}

const listed = (names: readonly string[]): string =>
  names.length === 0 ? 'no partition' : `${names.length} (${names.join(', ')})`;

async function convert(context: CliContext, given: Given): Promise<ExitCode> {
  const { terminal, json } = context;
  checkConfirmable('partitions convert', given, terminal);
  const outbox = await opening(context);
  const request = requestOf(given, outbox);
  const { kind } = await outbox.answer(outbox.partitions.plan(request)); // refuses what is wrong before it asks
  if (isDryRun(given)) {
    if (json) terminal.out(jsonLine({ action: 'partitions', dryRun: true, kind }));
    if (kind === 'partitioned') return nothing('Skipped: the archive is partitioned already.', context);
    if (!json) terminal.out('It would put the archive aside, and a table in partitions in its place.');
    return EXIT.ok;
  }
  await confirm('make the archive a table in partitions; there is no way back', given, terminal);
  const { outcome, why } = await outbox.partitions.convert(request);
  if (json) terminal.out(jsonLine({ action: 'partitions', outcome, why }));
  if (why !== null) return nothing(`Skipped: ${why}.`, context);
  terminal.say('The archive is in partitions. partitions run moves what it held.');
  return EXIT.ok;
}

function nothing(text: string, { terminal }: CliContext): ExitCode {
  terminal.say(text);
  return EXIT.nothing;
}

/** Of tables alone nobody said how long messages are kept: nothing is dropped by a default. */
function requestOf({ options }: Given, { isConfigured }: OpenOutbox): PartitionRequest {
  const given = Object.fromEntries(
    ['period', 'lookahead', 'retention', 'lockTimeout'].flatMap((name) =>
      options[name] === undefined ? [] : [[name, options[name]]],
    ),
  ) as PartitionRequest;
  if (given.period === undefined && !isConfigured) refuseUsage("Give --period: 'hour', 'day' or 'month'.");
  return isConfigured ? given : { retention: null, ...given };
}

function readRetention(text: string): number | null {
  return text === 'never' ? null : readDuration(text);
}
