import type { KeptVersion, TransportDetails, VersionDetails } from '../../index.js';
import { printable } from '../../observe/redact/printable.js';
import type { CliCommand } from '../command.js';
import { EXIT } from '../exit-code.js';
import { paint } from '../style.js';
import { jsonLine, type Terminal } from '../terminal.js';
import { stateStyle } from '../state-style.js';
import { iso, number } from '../words.js';

export const SHOW: CliCommand = {
  name: 'show',
  summary: 'Show one message in each of its transports; values of headers stay hidden',
  args: '<id>',
  options: [{ flags: '--payload', help: 'with the first 1,024 bytes of the payload, unless it is encrypted' }],
  async run({ open, terminal, json }, { args, options }) {
    const outbox = await open();
    const details = await outbox.answer(outbox.admin.show(args[0] as string, { payload: options['payload'] === true }));
    if (json) terminal.out(jsonLine(details));
    else
      details.transports.forEach((one, n) => {
        if (n > 0) terminal.out('');
        for (const line of linesOf(one, terminal)) terminal.out(line);
      });
    if (!json) for (const line of details.edits.flatMap(editLines)) terminal.out(printable(line));
    if (details.transports.length > 0) return EXIT.ok;
    if (details.edits.length > 0) {
      terminal.say('The message is gone: only its edits are kept.');
      return EXIT.ok;
    }
    terminal.say(details.complete ? 'No message has this id.' : 'It was not found in time, and may exist.');
    return EXIT.nothing;
  },
};

function linesOf(message: TransportDetails, { colors }: Terminal): string[] {
  const { state, headers, errors, payload } = message;
  const facts: [string, string][] = [
    ['id', message.id],
    ['transport', message.transport],
    ['state', state],
    ['type', `${message.type} (version ${message.version})`],
    ['topic', message.topic],
    ['key', message.key ?? '-'],
    ['bucket', String(message.bucket)],
    ['attempts', String(message.attempts)],
    ...(['createdAt', 'dueAt', 'lastAttemptAt', 'diedAt', 'publishedAt'] as const).flatMap(
      (name): [string, string][] => (message[name] === null ? [] : [[TIMES[name], iso(message[name])]]),
    ),
    ...(message.lastError === null ? [] : [['last error', message.lastError] as [string, string]]),
    ...errors.map(({ attempt, at, error }): [string, string] => [`error ${attempt}`, `${iso(at)} ${error}`]),
    ['headers', Object.keys(headers).join(', ') || 'none'],
    ...(message.options === null ? [] : [['options', message.options] as [string, string]]),
    ['payload', sizeOf(message)],
    ...(message.revision === null ? [] : [['revision', message.revision] as [string, string]]),
  ];
  if (payload !== undefined)
    facts.push([payload.cut ? 'begins with' : 'content', payload.text ?? `base64 ${payload.base64}`]);
  return facts.map(([name, value]) => {
    const style = name === 'state' ? stateStyle(state) : undefined;
    return `${paint(name.padEnd(12), 'dim', colors)}  ${paint(printable(value), style, colors)}`;
  });
}

function sizeOf({ payloadBytes, contentType, contentEncoding, encryptionKeyId }: TransportDetails | VersionDetails) {
  const size = payloadBytes === null ? 'none' : `${number(payloadBytes)} bytes of ${contentType}`;
  const compressed = contentEncoding === null ? '' : `, compressed with ${contentEncoding}`;
  return size + compressed + (encryptionKeyId === null ? '' : `, encrypted with key '${encryptionKeyId}'`);
}

/** What it was before each edit. */
function editLines({ auditId, at, by, before }: KeptVersion): string[] {
  const head = `before edit ${auditId} of ${by}, ${iso(at)}:`;
  if (before === null) return ['', `${head} purged`];
  const { transport, topic, type, headers, payload } = before;
  return [
    '',
    head,
    `  transport ${transport}, topic ${topic}, type ${type}, headers ${Object.keys(headers).join(', ') || 'none'}`,
    `  payload ${sizeOf(before)}`,
    ...(payload === undefined
      ? []
      : [`  ${payload.cut ? 'begins with' : 'content'} ${payload.text ?? `base64 ${payload.base64}`}`]),
  ];
}

const TIMES = {
  createdAt: 'enqueued',
  dueAt: 'due',
  lastAttemptAt: 'last attempt',
  diedAt: 'died',
  publishedAt: 'published',
} as const;
