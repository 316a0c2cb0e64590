import type { FoundMessage } from '../../index.js';
import { CHUNK, inChunks } from '../chunks.js';
import type { CliCommand } from '../command.js';
import { readDuration } from '../common-options.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import type { OpenOutbox } from '../connect/open-outbox.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { readCount } from '../message-options.js';
import { jsonLine } from '../terminal.js';
import { messages } from '../words.js';

/** Messages that a dry run looks at. */
const MOST_LOOKED = 10_000;

export const CLEAN: CliCommand = {
  name: 'clean',
  summary: 'Delete old messages from the archive',
  options: [
    {
      flags: '--older-than <duration>',
      help: 'published longer ago than this, such as 30d; needed',
      read: readDuration,
    },
    { flags: '--limit <number>', help: 'at most so many; default: all', read: readCount },
    ...CONFIRM_OPTIONS,
  ],
  async run(context, given) {
    const { open, terminal, json } = context;
    const olderThan = given.options['olderThan'] as number | undefined;
    if (olderThan === undefined) refuseUsage('Give --older-than, such as --older-than 30d.');
    checkConfirmable('clean', given, terminal);
    const before = new Date(Date.now() - olderThan);
    const outbox = await open();
    if (isDryRun(given)) {
      const { count, isExact } = await countPublished(outbox, before);
      if (json) terminal.out(jsonLine({ action: 'clean', dryRun: true, count, isExact }));
      else terminal.out(`clean would delete ${messages(count)}${isExact ? '' : ' or more'}.`);
      return count === 0 ? EXIT.nothing : EXIT.ok;
    }
    await confirm(`delete what was published before ${before.toISOString()}`, given, terminal);
    const most = (given.options['limit'] as number | undefined) ?? Infinity;
    const { done, interrupted } = await inChunks(context, { most, verb: 'Deleted' }, async (limit) => {
      const { published } = await outbox.answer(outbox.cleaner.runOnce({ before, limit }));
      return { changed: published, more: published === Math.min(limit, CHUNK) };
    });
    if (json) terminal.out(jsonLine({ action: 'clean', done, interrupted }));
    else terminal.out(`Deleted ${messages(done)} of the archive.`);
    if (interrupted) terminal.say('Interrupted. What was done stays done: the same command goes on there.');
    return interrupted ? EXIT.interrupted : done === 0 ? EXIT.nothing : EXIT.ok;
  },
};

async function countPublished(outbox: OpenOutbox, before: Date): Promise<{ count: number; isExact: boolean }> {
  const isOld = ({ publishedAt }: FoundMessage): boolean => publishedAt !== null && publishedAt < before;
  let [count, looked, after] = [0, 0, undefined as string | undefined | null];
  while (after !== null && looked < MOST_LOOKED) {
    const page = await outbox.answer(
      outbox.admin.find({ state: 'published' }, { limit: 500, ...(after === undefined ? {} : { after }) }),
    );
    looked += page.messages.length;
    count += page.messages.filter(isOld).length;
    after = page.next;
  }
  return { count, isExact: after === null };
}
