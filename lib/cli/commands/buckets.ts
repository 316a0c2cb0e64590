import type { BucketState } from '../../index.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { filterOf } from '../message-options.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { age, number } from '../words.js';

export const BUCKETS: CliCommand = {
  name: 'buckets',
  summary: 'List which instance publishes from which bucket',
  options: [{ flags: '--transport <name>', help: 'of this transport' }],
  async run({ open, terminal, json }, given) {
    const outbox = await open();
    const buckets = await outbox.answer(outbox.admin.buckets(filterOf(given)));
    if (json) for (const bucket of buckets) terminal.out(jsonLine(bucket));
    else for (const line of tableLines(buckets, COLUMNS, terminal)) terminal.out(line);
    return EXIT.ok;
  },
};

const STYLES = { leased: 'green', free: undefined, expired: 'yellow', missing: 'red' } as const;

const COLUMNS: readonly Column<BucketState>[] = [
  { title: 'TRANSPORT', cell: ({ transport }) => transport, mayBeCut: true },
  { title: 'BUCKET', cell: ({ bucket }) => String(bucket), align: 'right' },
  {
    title: 'LEASE',
    cell: ({ lease }) => lease,
    style: ({ lease }) => STYLES[lease],
  },
  { title: 'OWNER', cell: ({ owner }) => owner ?? '-', mayBeCut: true },
  {
    title: 'PLACE',
    mayBeLeftOut: true,
    cell: ({ place, owner, ownerIsAlive }) => place ?? (owner === null || ownerIsAlive ? '-' : 'gone'),
    mayBeCut: true,
  },
  { title: 'UNTIL', cell: ({ expiresAt }) => age(expiresAt), align: 'right' },
  { title: 'READY', cell: ({ ready, readyIsExact }) => `${number(ready)}${readyIsExact ? '' : '+'}`, align: 'right' },
  { title: 'OLDEST', mayBeLeftOut: true, cell: ({ oldestReadyAt }) => age(oldestReadyAt), align: 'right' },
];
