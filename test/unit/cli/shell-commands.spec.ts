import { readdirSync, readFileSync } from 'node:fs';
import { COMMANDS } from '../../../lib/cli/commands.js';
import { parse } from '../../../lib/cli/parser.js';
import { shellCommands } from '../../../lib/cli/shell-commands.js';

const CALL = /\b(?:OutboxAdmin|outbox)\.\w+\(|\boutbox(?:Sql|Migrations)\(|\bdiagnose\(/g;
/** Where findings and their fixes are written. */
const FOLDERS = ['lib/doctor', 'lib/store/postgres/schema', 'lib/store/mysql/schema'];

describe('the doctor in a shell', () => {
  const sources = FOLDERS.flatMap((folder) => readdirSync(folder).map((file) => `${folder}/${file}`));
  const lines = sources
    .flatMap((file) => readFileSync(file, 'utf8').split('\n'))
    .filter((line) => /['`"]/.test(line) && !/^\s*(?:\*|\/\*|import)/.test(line));
  const calls = [...new Set(lines.flatMap((line) => line.match(CALL) ?? []))];

  it('has a command for each call of the library that a finding names', () => {
    expect(calls.length).toBeGreaterThan(6);
    const find = calls.filter((call) => call !== 'OutboxAdmin.find(');
    expect(find.filter((call) => shellCommands(call).length === 0)).toEqual([]);
    const finds = lines.filter((line) => line.includes('OutboxAdmin.find('));
    expect(finds.map((line) => shellCommands(line)[0])).toEqual([
      'npx nestjs-outbox list --state dead --state waiting',
    ]);
  });

  it('names commands that the parser takes, in the order in which they are typed', async () => {
    const all = shellCommands(`${calls.join(') ')} OutboxAdmin.find({ state: ['dead', 'waiting'] })`);
    expect(all.length).toBeGreaterThan(8);
    for (const command of all) {
      const words = command
        .replace('npx nestjs-outbox ', '')
        .replaceAll('<bytes>', '1')
        .replaceAll(/<(\w+)>/g, 'one')
        .split(' ');
      expect(await parse(words, COMMANDS, { out: () => undefined } as never)).toBeDefined();
    }
    expect(shellCommands('OutboxAdmin.failures() says why. Repair the cause, then outbox.requeue({ … }).')).toEqual([
      'npx nestjs-outbox dead',
      'npx nestjs-outbox requeue --type <type>',
    ]);
    expect(shellCommands('Start a relay.')).toEqual([]);
  });
});
