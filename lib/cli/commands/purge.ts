import type { PurgeCount, PurgeReport, PurgeSelection } from '../../index.js';
import { CHUNK } from '../chunks.js';
import type { CliCommand, CliContext, Given } from '../command.js';
import { readDuration } from '../common-options.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage, type ExitCode } from '../exit-code.js';
import { filterOf, MESSAGE_OPTIONS } from '../message-options.js';
import { jsonLine } from '../terminal.js';
import { messages, number } from '../words.js';

export const PURGE: CliCommand = {
  name: 'purge',
  summary: 'Delete published messages from the archive, and old versions of edited ones',
  args: '[ids...]',
  options: [
    ...MESSAGE_OPTIONS,
    { flags: '--older-than <duration>', help: 'age since it was published, such as 30d', read: readDuration },
    ...CONFIRM_OPTIONS,
  ],
  run,
};

async function run(context: CliContext, given: Given): Promise<ExitCode> {
  const { open, terminal, json } = context;
  const selection = filterOf<PurgeSelection>(given);
  if (Object.keys(selection).length === 0)
    refuseUsage('Give ids, or one of --key, --type, --topic, --transport, --older-than.');
  checkConfirmable('purge', given, terminal);
  const outbox = await open();
  if (given.options['yes'] !== true || isDryRun(given)) {
    // The archive is looked through to its end, each look in its own time: --timeout is none for all of them.
    const counted = await outbox.admin.purge(selection, { dryRun: true });
    const isNothing = counted.count + counted.versions === 0;
    if (isDryRun(given) || isNothing) {
      if (json) terminal.out(jsonLine({ action: 'purge', dryRun: true, ...counted }));
      else terminal.out(`purge would delete ${textOf(counted)}.`);
      return isNothing ? EXIT.nothing : EXIT.ok;
    }
    await confirm(`delete ${textOf(counted)} for good`, given, terminal);
  }
  return tell(context, await purge(context, outbox, selection));
}

async function purge({ interrupt, terminal }: CliContext, outbox: OpenOutbox, selection: PurgeSelection) {
  const end = new AbortController();
  const progress = ({ done }: { readonly done: number }): void => {
    if (interrupt.isAsked) end.abort();
    terminal.progress(`Deleted ${number(done)}`);
  };
  return interrupt
    .holding(() => outbox.admin.purge(selection, { chunkSize: CHUNK, signal: end.signal, progress }))
    .finally(() => terminal.progress(''));
}

function tell({ terminal, json }: CliContext, { auditId, done, versions, outcome }: PurgeReport): ExitCode {
  const interrupted = outcome === 'aborted';
  if (json) terminal.out(jsonLine({ action: 'purge', auditId, done, versions, interrupted }));
  else terminal.out(`Deleted ${textOf({ count: done - versions, versions })}.`);
  if (interrupted) terminal.say('Interrupted. What was done stays done. Run the same command to continue.');
  return interrupted ? EXIT.interrupted : done === 0 ? EXIT.nothing : EXIT.ok;
}

const textOf = ({ count, versions }: PurgeCount): string =>
  `${messages(count)} of the archive and ${number(versions)} old ${versions === 1 ? 'version' : 'versions'}`;
