import type { PauseEntry, PauseSubject } from '../../index.js';
import { capital, pausedPart } from '../../observe/paused.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand, CliContext, Given } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage, type ExitCode } from '../exit-code.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { age } from '../words.js';

const PARTS: CliCommand['options'] = [
  { flags: '--topic <topic>', help: 'only messages with this topic' },
  { flags: '--key <key>', help: 'only messages with this key' },
];

export const PAUSE: CliCommand = {
  name: 'pause',
  summary: 'Stop publishing to a transport, or one topic or key of it, in all instances',
  args: '<transport>',
  options: [{ flags: '--reason <text>', help: 'why, for whoever is on call' }, ...PARTS, ...CONFIRM_OPTIONS],
  async run(context, given) {
    const reason = given.options['reason'] as string | undefined;
    if (reason === undefined || reason === '')
      refuseUsage('Give --reason, such as --reason "wrong prices, see #4711".');
    return act('pause', context, given, (outbox, subject) => outbox.admin.pause({ ...subject, reason }));
  },
};

export const RESUME: CliCommand = {
  name: 'resume',
  summary: 'End a pause, in all instances',
  args: '<transport>',
  options: [...PARTS, ...CONFIRM_OPTIONS],
  run: (context, given) => act('resume', context, given, (outbox, subject) => outbox.admin.resume(subject)),
};

export const PAUSES: CliCommand = {
  name: 'pauses',
  summary: 'List pauses: since when, by whom and why',
  async run({ open, terminal, json }) {
    const outbox = await open();
    const pauses = await outbox.answer(outbox.admin.pauses());
    if (json) for (const pause of pauses) terminal.out(jsonLine(pause));
    else for (const line of tableLines(pauses, COLUMNS, terminal)) terminal.out(line);
    return pauses.length === 0 ? EXIT.nothing : EXIT.ok;
  },
};

type Action = 'pause' | 'resume';
const DONE = { pause: 'paused', resume: 'resumed' } as const;

async function act(
  action: Action,
  { open, terminal, json }: CliContext,
  given: Given,
  run: (outbox: OpenOutbox, subject: PauseSubject) => Promise<{ readonly changed: boolean; readonly auditId: string }>,
): Promise<ExitCode> {
  const subject = subjectOf(given);
  const { transport, topic = null, key = null } = subject;
  const part = pausedPart({ name: printable(transport), topic, key });
  checkConfirmable(action, given, terminal);
  const outbox = await open();
  const counts = (await outbox.answer(outbox.service.stats())).transports[transport];
  const before = (await outbox.answer(outbox.admin.pauses())).find(
    (one) => one.transport === transport && one.topic === topic && one.key === key,
  );
  const wouldChange = counts !== undefined && (before === undefined) === (action === 'pause');
  if (isDryRun(given)) {
    if (json) terminal.out(jsonLine({ action, dryRun: true, ...subject, changed: wouldChange, pause: before ?? null }));
    else terminal.out(wouldChange ? `${action} would change ${part}.` : unchanged(part, before));
    return wouldChange ? EXIT.ok : EXIT.nothing;
  }
  if (wouldChange) await confirm(question(action, part, waitingOf(subject, counts.ready), before), given, terminal);
  const { changed, auditId } = await outbox.answer(run(outbox, subject));
  if (json) terminal.out(jsonLine({ action, ...subject, changed, auditId }));
  else terminal.out(changed ? `${capital(part)} is ${DONE[action]}.` : unchanged(part, before));
  return changed ? EXIT.ok : EXIT.nothing;
}

function subjectOf({ args, options }: Given): PauseSubject {
  const [topic, key] = [options['topic'], options['key']] as (string | undefined)[];
  return {
    transport: args[0] as string,
    ...(topic === undefined ? {} : { topic }),
    ...(key === undefined ? {} : { key }),
  };
}

/** How many messages a part has ready, nobody counts. */
const waitingOf = ({ topic, key }: PauseSubject, ready: number): string =>
  topic === undefined && key === undefined ? `${ready} ready for it` : 'its messages';

const question = (action: Action, part: string, waiting: string, before: PauseEntry | undefined): string =>
  before === undefined
    ? `${action} ${part} in all instances; ${waiting} wait until resume`
    : `${action} ${part}, which ${before.by} paused: ${before.reason}`;

const unchanged = (part: string, before: PauseEntry | undefined): string =>
  before === undefined
    ? `${capital(part)} is not paused.`
    : `${capital(part)} is paused already, by ${before.by}: ${before.reason}`;

const COLUMNS: readonly Column<PauseEntry>[] = [
  { title: 'TRANSPORT', cell: ({ transport }) => transport, mayBeCut: true },
  { title: 'TOPIC', cell: ({ topic }) => topic ?? 'all', mayBeCut: true },
  { title: 'KEY', cell: ({ key }) => key ?? 'all', mayBeCut: true },
  { title: 'SINCE', cell: ({ since }) => age(since), align: 'right' },
  { title: 'BY', cell: ({ by }) => by, mayBeCut: true },
  { title: 'REASON', cell: ({ reason }) => reason, mayBeCut: true },
];
