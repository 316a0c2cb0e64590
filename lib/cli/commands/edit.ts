import { readFileSync } from 'node:fs';
import type { EditOptions, EditPreview, EditReport, MessageChanges, OutboxAdmin } from '../../index.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand, CliContext, Given } from '../command.js';
import { checkConfirmable, confirm, CONFIRM_OPTIONS, isDryRun } from '../confirm.js';
import { EXIT, refuseUsage } from '../exit-code.js';
import { tableLines, type Column } from '../table.js';
import { jsonLine } from '../terminal.js';

type Difference = EditPreview['differences'][number];

export const EDIT: CliCommand = {
  name: 'edit',
  summary: 'Correct a dead, waiting, blocked or scheduled message; the old version is kept',
  args: '<id>',
  options: [
    { flags: '--payload-file <file>', help: 'file with the new payload', read: readFile },
    { flags: '--payload-json <json>', help: 'the payload as JSON; others may see it in the list of processes' },
    { flags: '--content-type <type>', help: 'of the payload; default: as it was' },
    { flags: '--header <name=value>', help: 'sets a header; may be given several times', many: true, read: readHeader },
    { flags: '--remove-header <name>', help: 'may be given several times', many: true },
    { flags: '--topic <topic>', help: 'the new topic' },
    { flags: '--type <type>', help: 'the new type' },
    { flags: '--transport <name>', help: 'which transport, if several have the message' },
    { flags: '--expect <revision>', help: 'only if the message still has this revision, as show has it' },
    { flags: '--restore <edit>', help: 'put back the version from before this edit, by its number in show' },
    { flags: '--requeue', help: 'and try it again at once' },
    ...CONFIRM_OPTIONS,
  ],
  run,
};

async function run(context: CliContext, given: Given) {
  const { open, terminal, json } = context;
  const [id, options] = [given.args[0] as string, optionsOf(given)];
  const edit = editOf(given);
  checkConfirmable('edit', given, terminal);
  const { admin, answer } = await open();
  const preview = await answer<EditPreview>(edit(admin, id, { ...options, dryRun: true }));
  if (isDryRun(given)) {
    tell(context, { action: 'edit', dryRun: true, ...preview });
    return EXIT.ok;
  }
  if (!json) tell(context, preview);
  await confirm(options.requeue === true ? 'edit the message, and requeue it' : 'edit the message', given, terminal);
  // What was shown is what is changed.
  const report = await answer(edit(admin, id, { ...options, expect: preview.revision }));
  if (json) terminal.out(jsonLine({ action: 'edit', ...report }));
  else terminal.out(options.requeue === true ? 'Edited and requeued 1 message.' : 'Edited 1 message.');
  return EXIT.ok;
}

type Edit = (
  admin: OutboxAdmin,
  id: string,
  options: EditOptions & { dryRun?: true },
) => Promise<EditPreview | EditReport>;

/** New content, or that of an old version. @throws CliError */
function editOf(given: Given): Edit {
  const restored = given.options['restore'] as string | undefined;
  const changes = changesOf(given);
  const isChanged = Object.keys(changes).length > 0;
  if (restored !== undefined && isChanged) refuseUsage('Give --restore, or a change.');
  if (restored !== undefined) return (admin, id, options) => admin.restore(id, restored, options as EditOptions);
  if (!isChanged) refuseUsage('Give a change: --payload-file, --payload-json, --header, --remove-header, --topic, …');
  return (admin, id, options) => admin.edit(id, changes, options as EditOptions);
}

function tell({ terminal, json }: CliContext, preview: EditPreview & { action?: string; dryRun?: boolean }): void {
  if (json) return terminal.out(jsonLine(preview));
  for (const line of tableLines(preview.differences, COLUMNS, terminal)) terminal.out(line);
}

const COLUMNS: readonly Column<Difference>[] = [
  { title: 'WHAT', cell: ({ what }) => what },
  { title: 'BEFORE', cell: ({ before }) => before ?? '-', mayBeCut: true },
  { title: 'AFTER', cell: ({ after }) => after ?? '-', mayBeCut: true },
];

function changesOf({ options }: Given): MessageChanges {
  const text = (name: string): string | undefined => options[name] as string | undefined;
  const [file, json] = [options['payloadFile'] as Buffer | undefined, text('payloadJson')];
  if (file !== undefined && json !== undefined) refuseUsage('Give one of --payload-file and --payload-json.');
  if (json !== undefined && !isJson(json)) refuseUsage('--payload-json is no valid JSON.');
  const payload = file ?? json;
  const set = (options['header'] as readonly (readonly [string, string])[] | undefined) ?? [];
  const removed = (options['removeHeader'] as readonly string[] | undefined) ?? [];
  const headers = Object.fromEntries([...set, ...removed.map((name) => [name, null] as const)]);
  const [topic, type, contentType] = [text('topic'), text('type'), text('contentType')];
  return {
    ...(payload === undefined ? {} : { payload }),
    ...(contentType === undefined ? {} : { contentType }),
    ...(topic === undefined ? {} : { topic }),
    ...(type === undefined ? {} : { type }),
    ...(set.length + removed.length === 0 ? {} : { headers }),
  };
}

function optionsOf({ options }: Given): EditOptions {
  const [transport, expect] = [options['transport'] as string | undefined, options['expect'] as string | undefined];
  return {
    ...(transport === undefined ? {} : { transport }),
    ...(expect === undefined ? {} : { expect }),
    ...(options['requeue'] === true ? { requeue: true } : {}),
  };
}

/** @throws CliError */
function readFile(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    return refuseUsage(`The file ${printable(file)} cannot be read: ${String(Object(error)['code'])}.`);
  }
}

/** @throws CliError: without the value, which may be a secret */
function readHeader(text: string): readonly [name: string, value: string] {
  const end = text.indexOf('=');
  return end > 0 ? [text.slice(0, end), text.slice(end + 1)] : refuseUsage('It must be name=value.');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
