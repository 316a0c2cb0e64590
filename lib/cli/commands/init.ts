import { relative } from 'node:path';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { planInit, TRANSPORTS, type TransportText } from '../init/additions.js';
import { refuseUncommitted, writeAll } from '../init/edits.js';
import { openApplication } from '../init/project.js';
import { jsonLine } from '../terminal.js';

const NEXT = 'Then: build, npx nestjs-outbox migrate upgrade --module dist/app.module.js or your migrations, start.';

export const INIT: CliCommand = {
  name: 'init',
  summary: 'Add the outbox to the Nest application in this folder',
  connects: false,
  options: [
    { flags: '--project <name>', help: 'which application of nest-cli.json' },
    { flags: '--entry <file>', help: 'the file with NestFactory.create; default: main.ts in the sources' },
    { flags: '--transport <kind>', help: 'default: in-process', choices: Object.keys(TRANSPORTS) },
    { flags: '--no-example', help: 'without an example event' },
    { flags: '--dry-run', help: 'show what it would change' },
    { flags: '-y, --yes', help: 'also into files with changes that are not committed' },
  ],
  run: async ({ terminal, json }, { options }) => {
    const root = process.cwd();
    const transport = TRANSPORTS[String(options['transport'] ?? 'in-process')] as TransportText;
    const plan = planInit(openApplication(root, options), transport, options['example'] !== false);
    const dryRun = options['dryRun'] === true;
    if (!dryRun && options['yes'] !== true) refuseUncommitted(root, plan);
    if (!dryRun) writeAll(plan);
    const changes = plan.map(({ path, before, after }) => {
      const old = new Set(before?.split(/\r?\n/));
      const lines = after.split(/\r?\n/).filter((line) => !old.has(line));
      return { file: relative(root, path), isNew: before === undefined, lines: lines.map((line) => `+ ${line}`) };
    });
    const install = changes.length === 0 ? [] : [transport[1] ?? []].flat();
    const told = [
      ...changes.flatMap((one) => [`${one.isNew ? 'A' : 'M'} ${one.file}`, ...one.lines.map((line) => `  ${line}`)]),
      changes.length === 0 ? 'Nothing to change.' : `${changes.length} file(s) ${dryRun ? 'would be ' : ''}changed.`,
      ...(changes.length === 0 ? [] : [...install.map((name) => `Then: npm install ${name}`), NEXT]),
    ];
    if (json) terminal.out(jsonLine({ dryRun, changes, install }));
    else for (const line of told) terminal.out(printable(line));
    return EXIT.ok;
  },
};
