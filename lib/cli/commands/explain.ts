import { printable } from '../../observe/redact/printable.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { paint } from '../style.js';
import { jsonLine } from '../terminal.js';

const NOT_FOUND = ['not-found', 'not-searched'];

export const EXPLAIN: CliCommand = {
  name: 'explain',
  summary: 'Say why one message is not sent',
  args: '<id>',
  async run({ open, terminal, json }, { args }) {
    const outbox = await open();
    const explanation = await outbox.answer(outbox.admin.explain(args[0] as string));
    if (json) terminal.out(jsonLine(explanation));
    else
      for (const { code, text, facts } of explanation.reasons) {
        terminal.out(`${paint(code, code === 'published' ? 'green' : 'bold', terminal.colors)}: ${printable(text)}`);
        const width = Math.max(...Object.keys(facts).map((name) => name.length));
        for (const [name, fact] of Object.entries(facts))
          terminal.out(`  ${paint(name.padEnd(width), 'dim', terminal.colors)}  ${printable(factText(fact))}`);
      }
    return explanation.reasons.every(({ code }) => NOT_FOUND.includes(code)) ? EXIT.nothing : EXIT.ok;
  },
};

const factText = (fact: string | number | boolean | Date | null): string =>
  fact instanceof Date ? fact.toISOString() : String(fact ?? 'none');
