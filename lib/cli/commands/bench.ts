import { measureDrain, measureEnqueue, type BenchSettings, type Rate } from '../bench/measure.js';
import { MOST_WRITERS, openScratch, scratchPrefix, type Scratch } from '../bench/scratch.js';
import { readVersions } from '../bench/versions.js';
import type { CliCommand, CliContext } from '../command.js';
import { readDuration } from '../common-options.js';
import { inTime, NOT_OPEN } from '../connect/open-outbox.js';
import { reach, type Reached } from '../connect/reach.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { tablesOfModule } from '../migrate/of-module.js';
import { readCount } from '../message-options.js';
import { jsonLine } from '../terminal.js';
import { number } from '../words.js';

const DEFAULTS: BenchSettings = { messages: 5_000, most: 20_000, payloadBytes: 200 };
const MOST: BenchSettings = { messages: 1_000_000, most: 600_000, payloadBytes: 100_000 };

export const BENCH: CliCommand = {
  name: 'bench',
  summary: 'Measure enqueue and publish on this database, in tables of its own that it drops',
  options: [
    { flags: '--messages <number>', help: `of each enqueue; default: ${number(DEFAULTS.messages)}`, read: readCount },
    { flags: '--for <duration>', help: 'each measurement takes no longer; default: 20s', read: readDuration },
    { flags: '--payload-bytes <bytes>', help: `default: ${DEFAULTS.payloadBytes}`, read: readCount },
  ],
  async run(context, { options }) {
    const given = options as { messages?: number; for?: number; payloadBytes?: number };
    const settings = checked({
      messages: given.messages ?? DEFAULTS.messages,
      most: given.for ?? DEFAULTS.most,
      payloadBytes: given.payloadBytes ?? DEFAULTS.payloadBytes,
    });
    const { reached, timeout } = await databaseOf(context);
    const prefix = scratchPrefix();
    context.terminal.say(`It works in tables of its own, ${prefix}…, and drops them at the end.`);
    const report = await context.interrupt.holding(async () => {
      const scratch = await inTime(openScratch(reached, prefix, timeout), timeout, NOT_OPEN);
      return measure(context, scratch, settings, reached.folder).finally(() => removed(context, scratch));
    });
    tell(context, settings, report);
    return context.interrupt.isAsked ? EXIT.interrupted : EXIT.ok;
  },
};

/** Each number with its bound. @throws CliError */
function checked(settings: BenchSettings): BenchSettings {
  const [flags, bounds] = [{ messages: 'messages', most: 'for', payloadBytes: 'payload-bytes' }, MOST] as const;
  for (const name of ['messages', 'most', 'payloadBytes'] as const)
    if (settings[name] < 1 || settings[name] > bounds[name])
      refuseUsage(
        `--${flags[name]} must be at least 1${name === 'most' ? 'ms' : ''} and at most ${name === 'most' ? '10m' : number(bounds[name])}.`,
      );
  return settings;
}

async function databaseOf(context: CliContext): Promise<{ reached: Reached; timeout: number }> {
  const { source, ...rest } = await context.settings();
  const reached = source.kind === 'database' ? await reach(source) : (await tablesOfModule(source, rest)).reached;
  return { reached, timeout: rest.timeout };
}

async function measure({ terminal, interrupt }: CliContext, scratch: Scratch, settings: BenchSettings, folder: string) {
  const versions = await readVersions(scratch.db, folder);
  const enqueue: (Rate & { readonly writers: number })[] = [];
  for (const writers of [1, MOST_WRITERS]) {
    terminal.progress(`enqueue, ${writers} at once`);
    enqueue.push({ writers, ...(await measureEnqueue(scratch, writers, settings, interrupt)) });
  }
  terminal.progress('publish');
  return { versions, enqueue, drain: await measureDrain(scratch, settings, interrupt) };
}

async function removed({ terminal }: CliContext, scratch: Scratch): Promise<void> {
  terminal.progress('drop the tables');
  await scratch.remove().finally(() => terminal.progress(''));
}

type Report = Awaited<ReturnType<typeof measure>>;

function tell({ terminal, json, interrupt }: CliContext, settings: BenchSettings, report: Report): void {
  const { messages, payloadBytes } = settings;
  const interrupted = interrupt.isAsked;
  if (json) return terminal.out(jsonLine({ ...report, messages, payloadBytes, interrupted }));
  const { outbox, node, server, driver } = report.versions;
  terminal.out(`nestjs-outbox ${outbox}, Node ${node}, ${driver}, server ${server}`);
  const line = (what: string, { perSecond, messages: done, seconds }: Rate): void =>
    terminal.out(`${what.padEnd(20)} ${number(perSecond).padStart(9)}/s  (${number(done)} in ${seconds} s)`);
  for (const each of report.enqueue) line(`enqueue, ${each.writers} writer${each.writers === 1 ? '' : 's'}`, each);
  line('publish', report.drain);
  if (interrupted) terminal.say('Interrupted: the numbers are of what was done until then.');
}
