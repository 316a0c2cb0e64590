import type { OwnSession } from '../../data-layers/tables/index.js';
import type * as Migrations from '../../data-layers/tables/index.js';
import type * as InboxSteps from '../../inbox/steps.js';
import type * as Outbox from '../../index.js';
import type { OutboxDialect, OutboxSchemaOptions } from '../../index.js';
import { milliseconds } from '../../time/duration.js';
import type { CliCommand, CliContext, Given } from '../command.js';
import { readDuration } from '../common-options.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import { inTime, NO_ANSWER } from '../connect/open-outbox.js';
import { loadPackage } from '../connect/packages.js';
import { reach } from '../connect/reach.js';
import { EXIT, refuseUsage, type ExitCode } from '../exit-code.js';
import { tablesOfModule, type DeclaredTables } from '../migrate/of-module.js';
import { alone } from '../migrate/alone.js';
import { createMigrationFile, createTypeOrmFile } from '../migrate/migration-file.js';
import { down, up } from '../migrate/steps.js';
import { openMigrator, type Shape, type Tables } from '../migrate/tables.js';
import { withPatience } from '../migrate/with-patience.js';
import { readCount } from '../message-options.js';
import { jsonLine } from '../terminal.js';

type Action = (context: CliContext, given: Given) => Promise<ExitCode>;

const ACTIONS: Readonly<Record<string, Action>> = { status, upgrade, downgrade, create, print };
const DIALECTS: Readonly<Record<string, OutboxDialect>> = { postgres: 'postgres', mysql: 'mysql', mariadb: 'mysql' };
const DEFAULT_WAIT = milliseconds('60s') as number;

export const MIGRATE: CliCommand = {
  name: 'migrate',
  summary: 'Create, upgrade and downgrade the tables: status, upgrade, downgrade, create [folder], print <database>',
  args: '<action...>',
  options: [
    { flags: '--to <version>', help: 'downgrade: to this version of the tables; 0 drops them', read: readVersion },
    {
      flags: '--wait <duration>',
      help: 'how long to try while others lock the tables; default: 60s',
      read: readDuration,
    },
    {
      flags: '--migrator <name>',
      help: 'create: whose migration; default: typeorm',
      choices: ['typeorm', 'prisma', 'drizzle', 'knex', 'kysely', 'mikro-orm'],
    },
    { flags: '--inbox [name]', help: 'the tables of an inbox; its name, where a module has several' },
    { flags: '--way <way>', help: 'print: up (default) or down', choices: ['up', 'down'] },
    { flags: '--buckets <number>', help: 'of tables that are made; default: 32', read: readCount },
    { flags: '--ordering <kind>', help: 'the same; default: key', choices: ['key', 'strict', 'none', 'global'] },
    { flags: '--coordination <kind>', help: 'the same; default: buckets', choices: ['buckets', 'rowLock', 'leader'] },
    { flags: '--partitioned-archive', help: 'the same: an archive in partitions' },
    ...CONFIRM_OPTIONS,
  ],
  run: async (context, given) => {
    const [name = ''] = given.args;
    const action = ACTIONS[name];
    if (action === undefined)
      refuseUsage(`There is no 'migrate ${name}'. Use one of: ${Object.keys(ACTIONS).join(', ')}.`);
    return action(context, given);
  },
};

async function status(context: CliContext, given: Given): Promise<ExitCode> {
  return using(context, given, async ({ version, latest }) => {
    const isCurrent = version === latest;
    if (context.json) context.terminal.out(jsonLine({ version: version ?? null, latest, isCurrent }));
    else context.terminal.out(`The tables ${said(version)}; this release has version ${latest}.`);
    return isCurrent ? EXIT.ok : EXIT.nothing;
  });
}

const said = (version: number | undefined): string =>
  version === undefined ? 'are not there' : `have version ${version}`;

async function upgrade(context: CliContext, given: Given): Promise<ExitCode> {
  return using(context, given, async (tables) => {
    if (tables.version !== undefined && tables.version > tables.latest)
      refuseUsage(
        `The tables have version ${tables.version}, and this release has ${tables.latest}: use the newer release.`,
      );
    return change(context, given, tables, (session) => up(tables, session));
  });
}

async function downgrade(context: CliContext, given: Given): Promise<ExitCode> {
  checkConfirmable('migrate downgrade', given, context.terminal);
  return using(context, given, async (tables) => {
    const { version } = tables;
    if (version === undefined) {
      context.terminal.say('The tables are not there.');
      return EXIT.nothing;
    }
    const target = (given.options['to'] as number | undefined) ?? version - 1;
    if (target >= version) refuseUsage(`The tables have version ${version}. Give --to with a lower one.`);
    const loss =
      target === 0 ? `drop the tables of the ${whoseOf(given)}` : `downgrade the tables to version ${target}`;
    if (!isDryRun(given)) await confirm(loss, given, context.terminal);
    return change(context, given, tables, (session) => down(tables, session, target));
  });
}

async function change(
  { terminal, json }: CliContext,
  given: Given,
  tables: Tables,
  work: (session: OwnSession) => Promise<string[]>,
): Promise<ExitCode> {
  if (isDryRun(given)) {
    const { version = null, latest } = tables;
    if (json) terminal.out(jsonLine({ dryRun: true, version, latest }));
    else terminal.out(`The tables ${said(tables.version)}; nothing was changed. migrate print shows the statements.`);
    return EXIT.ok;
  }
  const wait = (given.options['wait'] as number | undefined) ?? DEFAULT_WAIT;
  const waiting = (): void => terminal.say('Other transactions lock the tables: trying again.');
  const another = (): void => terminal.say('Another migrate is changing the tables: waiting for it.');
  const isPostgres = tables.db.dialect === 'postgres';
  const done = await tables.db.alone((session) =>
    alone(session, tables, { wait, waiting: another }, () =>
      withPatience(session, isPostgres, { wait, waiting }, () => work(session)),
    ),
  );
  if (json) terminal.out(jsonLine({ done }));
  else
    for (const line of done.length === 0 ? ['Nothing to do.'] : done.map((name) => `done: ${name}`)) terminal.out(line);
  return EXIT.ok;
}

async function create(context: CliContext, given: Given): Promise<ExitCode> {
  const { terminal, json } = context;
  const { path, isNew } = await createdFile(context, given);
  if (json) terminal.out(jsonLine({ file: path, isNew }));
  else terminal.out(isNew ? `A ${path}` : `= ${path} is there already`);
  return EXIT.ok;
}

async function createdFile(context: CliContext, given: Given): Promise<ReturnType<typeof createTypeOrmFile>> {
  const [, folder] = given.args;
  const { migrator = 'typeorm' } = given.options as { migrator?: string };
  if (migrator === 'typeorm')
    return createTypeOrmFile(process.cwd(), folder, await namedBy(context, given), whoseOf(given));
  const { reached, shape } = await declared(context, given);
  const { formOf } = await loadPackage<typeof Migrations>('nestjs-outbox/tables', reached.folder);
  const { prefix, schema } = reached.place;
  const options = withoutGaps({ prefix, schema, ...shape });
  if (whoseOf(given) === 'outbox')
    return createMigrationFile(process.cwd(), formOf(migrator, reached.dialect, options), folder, prefix);
  const { inboxStatements } = await loadPackage<typeof InboxSteps>('nestjs-outbox/inbox-steps', reached.folder);
  const form = formOf(migrator, reached.dialect, options, inboxStatements(reached.dialect, options));
  return createMigrationFile(process.cwd(), form, folder, `${prefix}inbox`);
}

async function print(context: CliContext, given: Given): Promise<ExitCode> {
  const dialect = DIALECTS[given.args[1] ?? ''];
  if (dialect === undefined) refuseUsage(`Name the database: migrate print ${Object.keys(DIALECTS).join(' | ')}.`);
  const { way = 'up' } = given.options as { way?: 'up' | 'down' };
  const { outboxSql } = await loadPackage<typeof Outbox>('nestjs-outbox', process.cwd());
  const { inboxSql } = await loadPackage<typeof InboxSteps>('nestjs-outbox/inbox-steps', process.cwd());
  const sqlOf = whoseOf(given) === 'inbox' ? inboxSql : outboxSql;
  const sql = sqlOf(dialect, await namedBy(context, given))[way].trimEnd();
  context.terminal.out(context.json ? jsonLine({ dialect, way, sql }) : sql);
  return EXIT.ok;
}

/** For what needs no database: a module is opened only where it is named in the command. */
async function namedBy(context: CliContext, given: Given): Promise<OutboxSchemaOptions> {
  const { prefix, schema, module } = given.options as { prefix?: string; schema?: string; module?: string };
  if (module === undefined) return withoutGaps({ prefix, schema, ...shapeOf(given) });
  const { reached, shape } = await declared(context, given);
  return withoutGaps({ prefix: reached.place.prefix, schema: reached.place.schema, ...shape });
}

const whoseOf = ({ options: { inbox } }: Given) => (inbox === undefined ? 'outbox' : 'inbox');

const SHAPE = ['buckets', 'ordering', 'coordination', 'partitionedArchive'] as const;

function shapeOf({ options }: Pick<Given, 'options'>): Shape {
  const shape = withoutGaps(Object.fromEntries(SHAPE.map((name) => [name, options[name]]))) as Shape;
  const [own] = Object.keys(shape);
  if (own !== undefined && options['inbox'] !== undefined)
    refuseUsage(`--${own} goes with an outbox: an inbox has none.`);
  return shape;
}

const withoutGaps = <T>(fields: { readonly [K in keyof T]: T[K] | undefined }): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;

/** What the settings name: tables of a database, or those of an application. */
async function declared(context: CliContext, given: Given): Promise<DeclaredTables> {
  const { source, ...settings } = await context.settings();
  const [{ inbox }, shape] = [given.options, shapeOf(given)];
  if (source.kind === 'database') {
    if (typeof inbox !== 'string') return { reached: await reach(source), shape };
    refuseUsage('--inbox with a name goes with a module: a database has --prefix and --schema.');
  }
  const [own] = Object.keys(shape);
  if (own !== undefined) refuseUsage(`--${own} goes with a database: a module has its own.`);
  return tablesOfModule(source, settings, inbox === true ? 'default' : (inbox as string | undefined));
}

async function using(
  context: CliContext,
  given: Given,
  work: (tables: Tables) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { reached, shape } = await declared(context, given);
  const { timeout } = await context.settings();
  try {
    // Others may have the table that says the version.
    const opening = openMigrator(reached, shape, timeout, whoseOf(given) === 'inbox');
    const tables = await inTime(opening, timeout, NO_ANSWER);
    return await work(tables).finally(() => tables.db.close());
  } finally {
    void reached.end().catch(() => {});
  }
}

function readVersion(text: string): number {
  return /^\d+$/.test(text) ? Number(text) : refuseUsage('It must be a version of the tables, such as 1.');
}
