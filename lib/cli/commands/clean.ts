import type { FoundMessage } from '../../index.js';
import { CHUNK, inChunks } from '../chunks.js';
import type { CliCommand } from '../command.js';
import { readDuration } from '../common-options.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { readCount } from '../message-options.js';
import { jsonLine } from '../terminal.js';
import { messages, number } from '../words.js';

/** Messages of one state that a dry run looks at. */
const MOST_LOOKED = 10_000;

export const CLEAN: CliCommand = {
  name: 'clean',
  summary: 'Delete old messages from the archive, and dead ones where they are asked for',
  options: [
    {
      flags: '--older-than <duration>',
      help: 'age since it was published or died, such as 30d; needed',
      read: readDuration,
    },
    { flags: '--include-dead', help: 'dead messages, too' },
    { flags: '--limit <number>', help: 'limit; default: all', read: readCount },
    ...CONFIRM_OPTIONS,
  ],
  async run(context, given) {
    const { open, terminal, json } = context;
    const olderThan = given.options['olderThan'] as number | undefined;
    if (olderThan === undefined) refuseUsage('Give --older-than, such as --older-than 30d.');
    checkConfirmable('clean', given, terminal);
    const before = new Date(Date.now() - olderThan);
    const withDead = given.options['includeDead'] === true;
    const outbox = await open();
    if (isDryRun(given)) {
      const { count, isExact } = await countOld(outbox, before, withDead);
      if (json) terminal.out(jsonLine({ action: 'clean', dryRun: true, count, isExact }));
      else terminal.out(`clean would delete ${messages(count)}${isExact ? '' : ' or more'}.`);
      return count === 0 ? EXIT.nothing : EXIT.ok;
    }
    await confirm(
      `delete what was published${withDead ? ', or died,' : ''} before ${before.toISOString()}`,
      given,
      terminal,
    );
    const most = (given.options['limit'] as number | undefined) ?? Infinity;
    const clean = (includeDead: false | 'only', already: number) =>
      inChunks(context, { most: most - already, verb: 'Deleted' }, async (limit) => {
        const { published, dead } = await outbox.answer(outbox.cleaner.runOnce({ before, limit, includeDead }));
        return { changed: published + dead, more: published + dead === Math.min(limit, CHUNK) };
      });
    const archive = await clean(false, 0);
    const dead = withDead && !archive.interrupted ? await clean('only', archive.done) : undefined;
    const done = archive.done + (dead?.done ?? 0);
    const interrupted = archive.interrupted || dead?.interrupted === true;
    if (json) terminal.out(jsonLine({ action: 'clean', done, ...(dead && { dead: dead.done }), interrupted }));
    else
      terminal.out(`Deleted ${messages(archive.done)} of the archive${dead ? `, and ${number(dead.done)} dead` : ''}.`);
    if (interrupted) terminal.say('Interrupted. What was done stays done. Run the same command to continue.');
    return interrupted ? EXIT.interrupted : done === 0 ? EXIT.nothing : EXIT.ok;
  },
};

interface Count {
  readonly count: number;
  readonly isExact: boolean;
}

async function countOld(outbox: OpenOutbox, before: Date, withDead: boolean): Promise<Count> {
  const published = await countOf(
    outbox,
    'published',
    ({ publishedAt }) => publishedAt !== null && publishedAt < before,
  );
  if (!withDead) return published;
  const dead = await countOf(outbox, 'dead', ({ diedAt }) => diedAt !== null && diedAt < before);
  return { count: published.count + dead.count, isExact: published.isExact && dead.isExact };
}

async function countOf(
  outbox: OpenOutbox,
  state: 'published' | 'dead',
  isOld: (message: FoundMessage) => boolean,
): Promise<Count> {
  let [count, looked, after] = [0, 0, undefined as string | undefined | null];
  while (after !== null && looked < MOST_LOOKED) {
    const page = await outbox.answer(
      outbox.admin.find({ state }, { limit: 500, ...(after === undefined ? {} : { after }) }),
    );
    looked += page.messages.length;
    count += page.messages.filter(isOld).length;
    after = page.next;
  }
  return { count, isExact: after === null };
}
