import { relative } from 'node:path';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand } from '../command.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { BY_HAND } from '../init/refusal.js';
import { planInit, type Plan } from '../init/plan.js';
import { findProject } from '../init/project.js';
import { changedLines } from '../init/show.js';
import { Sources } from '../init/sources.js';
import { TRANSPORTS, type TransportText } from '../init/transport.js';
import { loadTypeScript } from '../init/typescript.js';
import { uncommitted } from '../init/uncommitted.js';
import { writeAll } from '../init/write.js';
import { jsonLine } from '../terminal.js';

const NAMES = Object.keys(TRANSPORTS);
const START = 'start the application. Its start runs the migrations.';
const MIGRATE =
  'build the application, and run npx nestjs-outbox migrate upgrade --module dist/app.module.js, or your migrations. Then start it.';

export const INIT: CliCommand = {
  name: 'init',
  summary: 'Add the outbox to the Nest application in this folder',
  connects: false,
  options: [
    { flags: '--project <name>', help: 'which application of nest-cli.json' },
    { flags: '--entry <file>', help: 'the file with NestFactory.create; default: main.ts in the sources' },
    { flags: '--transport <kind>', help: 'default: in-process', choices: NAMES },
    { flags: '--no-example', help: 'without an example event' },
    { flags: '--dry-run', help: 'show what it would change' },
    { flags: '-y, --yes', help: 'also into files with changes that are not committed' },
  ],
  run: async ({ terminal, json }, { options }) => {
    const root = process.cwd();
    const ts = loadTypeScript(root);
    const text = (name: string): { [name: string]: string } =>
      options[name] === undefined ? {} : { [name]: options[name] as string };
    const sources = new Sources(ts, findProject(ts, root, { ...text('project'), ...text('entry') }));
    const transport = TRANSPORTS[(options['transport'] as string | undefined) ?? 'in-process'] as TransportText;
    const plan = planInit(sources, transport, options['example'] !== false);
    const isDry = options['dryRun'] === true;
    if (!isDry) {
      if (options['yes'] !== true) refuseUncommitted(root, plan);
      writeAll(root, plan.changes);
    }
    const needed = ['nestjs-outbox', ...(plan.changes.length > 0 ? [transport.client] : [])].filter(
      (name) => name !== undefined && !sources.project.dependencies.has(name),
    ) as string[];
    if (json) terminal.out(jsonLine(asJson(root, plan, isDry, needed)));
    else for (const line of asLines(root, plan, isDry, needed)) terminal.out(printable(line));
    return EXIT.ok;
  },
};

function refuseUncommitted(root: string, { changes }: Plan): void {
  const files = uncommitted(
    root,
    changes.filter(({ before }) => before !== undefined).map(({ path }) => path),
  );
  if (files.length === 0) return;
  refuseUsage(`Not committed: ${files.join(', ')}. Commit first, so that you can go back, or give --yes. ${BY_HAND}`);
}

function asLines(root: string, plan: Plan, isDry: boolean, needed: readonly string[]): string[] {
  const { changes, found } = plan;
  const verb = isDry ? 'would be ' : '';
  return [
    ...found.map((one) => `= ${one}`),
    ...changes.flatMap((change) => [
      `${change.before === undefined ? 'A' : 'M'} ${relative(root, change.path)}`,
      ...changedLines(change).map((line) => `  ${line}`),
    ]),
    changes.length === 0 ? 'Nothing to change.' : `${changes.length} file(s) ${verb}changed.`,
    ...(needed.length === 0 ? [] : [`Then: npm install ${needed.join(' ')}`]),
    ...(changes.length === 0 ? [] : [`Then: ${plan.runsMigrations ? START : MIGRATE}`]),
  ];
}

const asJson = (root: string, { changes, found }: Plan, isDry: boolean, needed: readonly string[]): object => ({
  dryRun: isDry,
  changes: changes.map((change) => ({
    file: relative(root, change.path),
    isNew: change.before === undefined,
    lines: changedLines(change),
  })),
  found,
  install: needed,
});
