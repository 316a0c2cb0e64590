import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMMANDS } from '../../lib/cli/commands.js';
import { documents, ROOT } from './documents.js';

/** What a page would call an entry point of the package, where a list says that it is missing, if not by its name. */
const ENTRIES: Readonly<Record<string, RegExp>> = {
  '.': /\bhealth\b|dead letters?|handlers in the process/i,
  './typeorm': /\bTypeORM\b|migrations?\b/i,
  './mikro-orm': /\bMikroORM\b/i,
  './data-layer': /\bdata layers? of (?:your|its) own\b/i,
  './nats': /\bNATS\b|JetStream/i,
  './redis': /\bRedis Streams\b/i,
  './client-proxy': /\bNest clients?\b|ClientProxy/i,
  './inbox': /\binbox(?:es)?\b/i,
  './consumer': /\bNest consumers?\b|deserializer/i,
  './event-emitter': /\bevent emitters?\b|@OnEvent\b/i,
  './observe': /\bObservables?\b|diagnostics_channel|diagnostics channels?/i,
  './prometheus': /\bmetrics\b|Prometheus/i,
  './otel': /\btrac(es|ing)\b|OpenTelemetry|\bspans\b/i,
  './terminus': /\bprobes?\b|terminus|indicator/i,
};
/** Commands whose name alone is an everyday word, or a part of something that is missing. */
const COMMANDS_BY_OTHER_WORDS: Readonly<Record<string, RegExp>> = {
  list: /\blist of messages\b/i,
  show: /\bshow messages?\b/i,
  dead: /\bdead letters?\b/i,
  partitions: /\bpartitioned archive\b/i,
};
const COMMAND_LINE = /\bcommand[ -]line\b|\bCLI\b/i;

/** The lists of one page, each item without its links: an item may say where it ends by a link to what is there. */
function listsIn(text: string): string[] {
  const lines = text.split('\n');
  return lines.flatMap((line, at) => {
    if (!/\*\*not there yet\*\*|^- no [^.]* yet\b/i.test(line)) return [];
    const inner = lines.slice(at + 1);
    const end = inner.findIndex((one) => !one.startsWith('  '));
    const rest = line.replace(/^.*?\bnot there yet\b\W*/i, '').replace(/\[All limits\].*$/, '');
    return [[rest, ...inner.slice(0, end === -1 ? undefined : end)].join('\n').replace(/\[[^\]]*\]\([^)]*\)/g, '')];
  });
}

const wordOf = (name: string): RegExp => new RegExp(`\\b${name}\\b`, 'i');
function wordsOfWhatIsThere(): [string, RegExp][] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { exports: object };
  const entries = Object.keys(exports).filter((entry) => entry !== './package.json');
  const commands = COMMANDS.map(({ name }): [string, RegExp] => [name, COMMANDS_BY_OTHER_WORDS[name] ?? wordOf(name)]);
  return [...entries.map((entry): [string, RegExp] => [entry, ENTRIES[entry] ?? wordOf(entry.slice(2))]), ...commands];
}

function lies(text: string): string[] {
  const there: [string, RegExp][] = [['the command line', COMMAND_LINE], ...wordsOfWhatIsThere()];
  return listsIn(text).flatMap((list) => there.filter(([, words]) => words.test(list)).map(([what]) => what));
}

describe('what a page says is not there yet', () => {
  it.each(documents().filter(({ path }) => !/requirements|internals/.test(path)))('$path: is not there', ({ text }) => {
    expect(lies(text)).toEqual([]);
  });

  it('is a list in the page of limits', () => {
    const limits = documents().find(({ path }) => path === 'docs/limits.md')?.text ?? '';
    expect(listsIn(limits).join().length).toBeGreaterThan(100);
  });

  it.each([
    ['- No tracing, command line, dashboard of its own or inbox yet.', ['the command line', './inbox', './otel']],
    ['- **Not there yet**: a dashboard, probes. [All limits](docs/limits.md)', ['./terminus']],
    [
      '- **Not there yet**:\n  - a dashboard;\n  - a doctor, and metrics;\n- **Else**: Kafka',
      ['./prometheus', 'doctor'],
    ],
  ])('is found out: %j', (text, found) => {
    expect(lies(text)).toEqual(found);
  });
});
