import type { FoundMessage, MessageQuery } from '../../index.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { filterOf, MESSAGE_OPTIONS, readCount } from '../message-options.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { stateStyle } from '../state-style.js';
import { age, causeOf } from '../words.js';

const STATES = ['dead', 'waiting', 'blocked', 'scheduled', 'ready', 'published'] as const;
const PAGE = 500;
const DEFAULT_LIMIT = 50;

export const LIST: CliCommand = {
  name: 'list',
  summary: 'List messages, those that need attention first',
  args: '[ids...]',
  options: [
    {
      flags: '--state <state>',
      help: `may be given several times; default: all but published`,
      choices: STATES,
      many: true,
    },
    ...MESSAGE_OPTIONS,
    { flags: '--older-than <duration>', help: 'enqueued longer ago than this, such as 5m' },
    { flags: '--younger-than <duration>', help: 'enqueued within this time' },
    { flags: '--limit <number>', help: `default: ${DEFAULT_LIMIT}; "all" for no limit`, read: readLimit },
    { flags: '--after <cursor>', help: 'cursor that the previous list printed' },
  ],
  async run({ open, terminal, json }, given) {
    const outbox = await open();
    const query = filterOf<MessageQuery>(given);
    const limit = (given.options['limit'] as number | undefined) ?? DEFAULT_LIMIT;
    let [after, printed] = [given.options['after'] as string | undefined | null, 0];
    do {
      const more = after === undefined || after === null ? {} : { after };
      const size = Math.min(PAGE, limit - printed);
      const page = await outbox.answer(outbox.admin.find(query, { limit: size, ...more }));
      if (json) for (const message of page.messages) terminal.out(jsonLine(message));
      else if (page.messages.length > 0) {
        const lines = tableLines(page.messages, COLUMNS, terminal);
        for (const line of printed === 0 ? lines : lines.slice(1)) terminal.out(line);
      }
      if (query.ids !== undefined && !page.complete)
        terminal.say('The tables are long: a message that is not listed may exist. Give --key to search one bucket.');
      printed += page.messages.length;
      after = page.next;
    } while (after !== null && printed < limit);
    if (after !== null) terminal.say(`There may be more: --after ${after}`);
    if (printed === 0) terminal.say('No message matches.');
    return printed === 0 ? EXIT.nothing : EXIT.ok;
  },
};

function readLimit(text: string): number {
  return text === 'all' ? Infinity : readCount(text);
}

const COLUMNS: readonly Column<FoundMessage>[] = [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'STATE', cell: ({ state }) => state, style: ({ state }) => stateStyle(state) },
  { title: 'TRANSPORT', mayBeLeftOut: true, cell: ({ transport }) => transport, mayBeCut: true },
  { title: 'TYPE', cell: ({ type }) => type, mayBeCut: true },
  { title: 'KEY', cell: ({ key }) => key ?? '-', mayBeCut: true },
  { title: 'AGE', mayBeLeftOut: true, cell: ({ createdAt }) => age(createdAt), align: 'right' },
  { title: 'TRIES', mayBeLeftOut: true, cell: ({ attempts }) => String(attempts), align: 'right' },
  { title: 'LAST ERROR', mayBeLeftOut: true, cell: ({ lastError }) => causeOf(lastError ?? ''), mayBeCut: true },
];
