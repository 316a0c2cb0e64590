import { readFileSync } from 'node:fs';
import { COMMANDS } from '../../../lib/cli/commands.js';
import { parse } from '../../../lib/cli/parser.js';
import type { Terminal } from '../../../lib/cli/terminal.js';

const page = readFileSync('docs/cli.md', 'utf8');
const quiet: Terminal = {
  isInteractive: false,
  width: 80,
  colors: false,
  out: () => {},
  say: () => {},
  progress: () => {},
  clear: () => {},
  ask: async () => undefined,
};

describe('docs/cli.md', () => {
  it('has each command', () => {
    const isThere = (name: string): boolean => page.includes(`### ${name}\n`) || page.includes(`\`${name}`);
    expect(
      COMMANDS.map(({ name }) => name).filter((name) => !isThere(name) && !page.includes(`nestjs-outbox ${name}`)),
    ).toEqual([]);
    expect(new Set(COMMANDS.map(({ name }) => name)).size).toBe(COMMANDS.length);
  });

  const examples = [...page.matchAll(/^\$ npx nestjs-outbox (.+)$/gm)].map(([, words]) => words as string);

  it('has examples', () => expect(examples.length).toBeGreaterThan(12));

  it.each(examples)('%s is a command line that the parser takes', async (words) => {
    const args = words.split(' ');
    expect((await parse(args, COMMANDS, quiet))?.command.name).toBe(args[0]);
  });
});
