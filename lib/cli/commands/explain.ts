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
        if (DO[code] !== undefined) terminal.out(`  do: ${DO[code]}`);
      }
    return explanation.reasons.every(({ code }) => NOT_FOUND.includes(code)) ? EXIT.nothing : EXIT.ok;
  },
};

/** What whoever is on call can do about it, first of all. */
const DO: Readonly<Partial<Record<string, string>>> = {
  'not-searched': 'list --key, with its key, searches one bucket',
  dead: 'repair the cause, then requeue it; or discard it',
  waiting: 'repair what the error names, or cancel it. It is tried again: within 30 s if no attempt was charged',
  blocked: 'repair the message in front. If that one is dead, release lets the key continue past it',
  paused: 'resume it, once the reason is gone',
  'no-relay': 'start a relay that has the transport',
  'no-owner': 'ask again in a few seconds. If it stays, look at the logs of the relays',
  'owner-gone': 'start a relay if none is left. It takes over at the end of the lease',
  'circuit-open': 'bring the broker back, or correct its address or login',
};

const factText = (fact: string | number | boolean | Date | null): string =>
  fact instanceof Date ? fact.toISOString() : String(fact ?? 'none');
