import type { AuditEntry } from '../../index.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { readCount } from '../message-options.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';
import { age, number } from '../words.js';

/** The most of one answer. */
const PAGE = 500;

export const AUDIT: CliCommand = {
  name: 'audit',
  summary: 'List the actions of operators, newest first',
  options: [{ flags: '--limit <number>', help: 'limit; default 50', read: readCount }],
  async run({ open, terminal, json }, { options }) {
    const outbox = await open();
    const most = (options['limit'] as number | undefined) ?? 50;
    const entries: AuditEntry[] = [];
    for (let after: string | null | undefined; after !== null && entries.length < most;) {
      const limit = Math.min(PAGE, most - entries.length);
      const page = await outbox.answer(outbox.admin.audit({ limit, ...(after === undefined ? {} : { after }) }));
      entries.push(...page.entries);
      after = page.next;
    }
    if (json) for (const entry of entries) terminal.out(jsonLine(entry));
    else for (const line of tableLines(entries, COLUMNS, terminal)) terminal.out(line);
    return entries.length === 0 ? EXIT.nothing : EXIT.ok;
  },
};

const STYLES = { running: 'yellow', done: 'green', aborted: 'yellow', failed: 'red' } as const;

const COLUMNS: readonly Column<AuditEntry>[] = [
  { title: 'ID', cell: ({ id }) => id, align: 'right' },
  { title: 'ACTION', cell: ({ action }) => action },
  { title: 'BY', cell: ({ by }) => by, mayBeCut: true },
  { title: 'FILTER', cell: ({ filter }) => filter, mayBeCut: true },
  { title: 'BEGUN', cell: ({ begunAt }) => age(begunAt), align: 'right' },
  { title: 'DONE', cell: ({ done }) => number(done), align: 'right' },
  { title: 'SKIPPED', mayBeLeftOut: true, cell: ({ skipped }) => number(skipped), align: 'right' },
  { title: 'OUTCOME', cell: ({ outcome }) => outcome, style: ({ outcome }) => STYLES[outcome] },
];
