import type { FailureGroup, FailureQuery } from '../../index.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { filterOf, MESSAGE_OPTIONS } from '../message-options.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { age, causeOf, number } from '../words.js';

export const DEAD: CliCommand = {
  name: 'dead',
  summary: 'List dead messages in groups that failed alike',
  options: [
    {
      flags: '--state <state>',
      help: 'dead, or waiting for an attempt; may be given several times; default: dead',
      choices: ['dead', 'waiting'],
      many: true,
    },
    ...MESSAGE_OPTIONS.filter(({ flags }) => !flags.startsWith('--key')),
  ],
  async run({ open, terminal, json }, given) {
    const outbox = await open();
    const query = { state: 'dead' as const, ...filterOf<FailureQuery>(given) };
    const { groups, more, looked, cut } = await outbox.answer(outbox.admin.failures(query));
    if (json) for (const group of groups) terminal.out(jsonLine(group));
    else if (groups.length > 0) for (const line of tableLines(groups, COLUMNS, terminal)) terminal.out(line);
    if (cut) terminal.say(`These are counts of the ${number(looked)} messages that were looked at. There may be more.`);
    if (more > 0) terminal.say(`${number(more)} more groups are not listed.`);
    if (groups.length === 0) terminal.say('No message has failed.');
    return groups.length === 0 ? EXIT.nothing : EXIT.ok;
  },
};

const COLUMNS: readonly Column<FailureGroup>[] = [
  {
    title: 'COUNT',
    cell: ({ count }) => number(count),
    align: 'right',
    style: ({ dead }) => (dead > 0 ? 'red' : 'yellow'),
  },
  { title: 'TRANSPORT', mayBeLeftOut: true, cell: ({ transport }) => transport, mayBeCut: true },
  { title: 'TYPE', cell: ({ type }) => type, mayBeCut: true },
  { title: 'TOPIC', cell: ({ topic }) => topic, mayBeCut: true },
  { title: 'FIRST', mayBeLeftOut: true, cell: ({ firstSeen }) => age(firstSeen), align: 'right' },
  { title: 'LAST', mayBeLeftOut: true, cell: ({ lastSeen }) => age(lastSeen), align: 'right' },
  { title: 'EXAMPLE', cell: ({ exampleId }) => exampleId },
  { title: 'ERROR', cell: ({ error }) => causeOf(error), mayBeCut: true },
];
