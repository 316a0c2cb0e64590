import type { CliCommand } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import { EXIT } from '../exit-code.js';
import { jsonLine } from '../terminal.js';
import { messages } from '../words.js';

/** Counted before it asks. */
const MOST_COUNTED = 1_000;

export const RELEASE: CliCommand = {
  name: 'release',
  summary: 'Unblock a key: its dead messages stay dead, and no longer block it',
  args: '<key>',
  options: [{ flags: '--transport <name>', help: 'in this transport' }, ...CONFIRM_OPTIONS],
  async run({ open, terminal, json }, given) {
    const [key, transport] = [given.args[0] as string, given.options['transport'] as string | undefined];
    checkConfirmable('release', given, terminal);
    const outbox = await open();
    const of = transport === undefined ? {} : { transport };
    const dead = { key, state: 'dead', ...of } as const;
    const counting = outbox.admin.requeue(dead, { dryRun: true, limit: MOST_COUNTED });
    const { count } = await outbox.answer(counting);
    if (isDryRun(given)) {
      if (json) terminal.out(jsonLine({ action: 'release', dryRun: true, count }));
      else
        terminal.out(
          `release would let the key go on past ${messages(count)} that ${count === 1 ? 'is' : 'are'} dead.`,
        );
      return count === 0 ? EXIT.nothing : EXIT.ok;
    }
    if (count > 0)
      await confirm(`release the key past ${messages(count)}; later ones of it are sent before them`, given, terminal);
    const { released, auditId } = await outbox.answer(outbox.admin.release(key, of));
    if (json) terminal.out(jsonLine({ action: 'release', released, auditId }));
    else terminal.out(`Released ${messages(released)}.`);
    if (released === 0) terminal.say('The key has no dead message. list --key shows what it waits for.');
    return released === 0 ? EXIT.nothing : EXIT.ok;
  },
};
