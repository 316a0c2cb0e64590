import { setTimeout as sleep } from 'node:timers/promises';
import type { OutboxHealth, OutboxReason, OutboxStats, OutboxTransportStats } from '../../index.js';
import { errorText } from '../../observe/redact/error-text.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand, CliContext } from '../command.js';
import { readWait } from '../common-options.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, isWrongInput, type ExitCode } from '../exit-code.js';
import { paint, type Style } from '../style.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine, type Terminal } from '../terminal.js';
import { number, span } from '../words.js';

const EVERY = 2_000;

export const STATUS: CliCommand = {
  name: 'status',
  summary: 'Say whether messages are being published, and count those that wait',
  options: [
    { flags: '-w, --watch', help: 'repeat until Ctrl-C' },
    { flags: '--every <duration>', help: 'with --watch; default: 2s', read: readWait },
  ],
  async run(context, { options }) {
    const outbox = await context.open();
    const every = Math.max(100, (options['every'] as number | undefined) ?? EVERY);
    while (options['watch'] === true) {
      await look(outbox, context, true).catch((error: unknown) => failed(error, context));
      await sleep(every); // it keeps the process alive, as no timer of the clock does
    }
    return look(outbox, context, false);
  },
};

/** A database that restarts must not end the watch: the next look follows. What is wrong input stays so. */
function failed(error: unknown, { terminal }: CliContext): void {
  if (isWrongInput(error)) throw error;
  terminal.say(`${new Date().toISOString()} This look failed: ${printable(errorText(error))}`);
}

async function look(outbox: OpenOutbox, { terminal, json }: CliContext, isPicture: boolean): Promise<ExitCode> {
  const health = await outbox.answer(outbox.service.health());
  const stats = await outbox.answer(outbox.service.stats());
  if (isPicture && !json) {
    terminal.clear();
    terminal.out(new Date().toISOString());
  }
  if (json) terminal.out(jsonLine({ status: health.status, reasons: health.reasons, ...stats }));
  else for (const line of linesOf(health, stats, terminal)) terminal.out(line);
  return health.status === 'up' ? EXIT.ok : EXIT.nothing;
}

const STYLES: Record<OutboxHealth['status'], Style> = { up: 'green', degraded: 'yellow', down: 'red' };

function linesOf({ status, reasons }: OutboxHealth, { transports }: OutboxStats, terminal: Terminal): string[] {
  return [
    `status: ${paint(status, STYLES[status], terminal.colors)}`,
    ...reasons.map((reason) => `  ${told(reason)}`),
    '',
    ...tableLines(Object.entries(transports), COLUMNS, terminal),
  ];
}

/** As `explain` tells a reason: the word, and the sentence; then for how long, and whose it is. */
function told({ code, text, since, relay }: OutboxReason): string {
  const about = [
    ...(since === undefined ? [] : [`for ${span(Math.max(0, Date.now() - since.getTime()))}`]),
    ...(relay === undefined ? [] : [`relay ${relay}`]),
  ];
  return printable(`${code}: ${text}${about.length === 0 ? '' : ` (${about.join(', ')})`}`);
}

type Row = readonly [string, OutboxTransportStats];
type Counted = NonNullable<OutboxTransportStats['atLeast']>[number] | 'instances';
const count = (title: string, of: Counted, style?: Style): Column<Row> => ({
  title,
  cell: ([, stats]) => `${number(stats[of])}${stats.atLeast?.some((one) => one === of) === true ? '+' : ''}`,
  align: 'right',
  style: ([, stats]) => (stats[of] > 0 ? style : undefined),
});

const COLUMNS: readonly Column<Row>[] = [
  { title: 'TRANSPORT', cell: ([name]) => name, mayBeCut: true },
  {
    title: 'READY',
    cell: ([, { ready, readyIsExact }]) => `${number(ready)}${readyIsExact ? '' : '+'}`,
    align: 'right',
  },
  { title: 'OLDEST', cell: ([, { oldestReadyAge }]) => span(oldestReadyAge), align: 'right' },
  count('SCHEDULED', 'scheduled'),
  count('WAITING', 'waiting', 'yellow'),
  count('BLOCKED', 'blocked', 'yellow'),
  count('DEAD', 'dead', 'red'),
  count('BLOCKED KEYS', 'blockedKeys', 'yellow'),
  count('RELAYS', 'instances'),
];
