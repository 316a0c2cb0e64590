import type { DrainProgress, DrainReason, DrainReport, DrainTransport } from '../../index.js';
import { printable } from '../../observe/redact/printable.js';
import { whileHeard } from '../chunks.js';
import type { CliCommand, CliContext } from '../command.js';
import { readWait } from '../common-options.js';
import { EXIT, type ExitCode } from '../exit-code.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { messages, number, span } from '../words.js';

const FOR = 300_000;

export const DRAIN: CliCommand = {
  name: 'drain',
  summary: 'Wait until every message that is there now is published, dead or scheduled for later',
  options: [
    { flags: '--transport <name>', help: 'of this one alone' },
    { flags: '--for <duration>', help: 'longest wait; default: 5m', read: readWait },
  ],
  async run(context, { options }) {
    const outbox = await context.open();
    const transport = options['transport'] as string | undefined;
    const timeout = (options['for'] as number | undefined) ?? FOR;
    const report = await whileHeard(context, outbox, (signal, heard) =>
      outbox.admin.drain({
        ...(transport === undefined ? {} : { transport }),
        ...{ timeout, signal, progress: (progress) => heard(lineOf(progress)) },
      }),
    );
    return tell(context, report, timeout);
  },
};

function lineOf({ left, isExact, fraction, error }: DrainProgress): string {
  if (error !== null) return `The last look failed: ${printable(error)}`;
  return `Left ${atLeast(left, isExact)} (${Math.floor(100 * fraction)} %)`;
}

function tell({ terminal, json }: CliContext, report: DrainReport, timeout: number): ExitCode {
  const { outcome, left, isExact, transports, reasons, openTransactions } = report;
  if (json) terminal.out(jsonLine({ action: 'drain', ...report }));
  else if (outcome === 'drained') terminal.out(`Drained.${transports.length === 0 ? '' : ` ${restOf(transports)}`}`);
  else {
    const when = outcome === 'aborted' ? 'Interrupted' : `Not drained after ${span(timeout) || `${timeout}ms`}`;
    terminal.out(`${when}: ${isExact ? messages(left) : `${atLeast(left, false)} messages`} left.`);
    for (const line of tableLines(transports, COLUMNS, terminal)) terminal.out(line);
    for (const reason of reasons) terminal.out(sentenceOf(reason));
  }
  if (transports.length === 0) terminal.say('The database did not answer in time: the rest is not known.');
  if (openTransactions !== null && openTransactions > 0)
    terminal.say(`${number(openTransactions)} open with writes: what they enqueued is not counted.`);
  return outcome === 'drained' ? EXIT.ok : outcome === 'aborted' ? EXIT.interrupted : EXIT.nothing;
}

/** Not known exactly: `12,000+`. */
const atLeast = (count: number, isExact: boolean): string => `${number(count)}${isExact ? '' : '+'}`;

function restOf(transports: readonly DrainTransport[]): string {
  const sum = (of: (one: DrainTransport) => number): number => transports.reduce((all, one) => all + of(one), 0);
  return `${number(sum(({ dead }) => dead))} dead, ${number(sum(({ scheduled }) => scheduled))} scheduled for later.`;
}

const sentenceOf = ({ id, transport, code, text }: DrainReason): string =>
  printable(`${transport ?? ''} ${code}, as ${id}: ${text}`);

const count = (title: string, of: (one: DrainTransport) => number): Column<DrainTransport> => ({
  title,
  cell: (one) => number(of(one)),
  align: 'right',
});
const COLUMNS: readonly Column<DrainTransport>[] = [
  { title: 'TRANSPORT', cell: ({ transport }) => transport, mayBeCut: true },
  count('LEFT READY', ({ ready }) => ready),
  count('LEFT PARKED', ({ parked }) => parked),
  count('DEAD', ({ dead }) => dead),
  count('SCHEDULED', ({ scheduled }) => scheduled),
];
