import type { HeaderValue, MessageHeaders } from '../../outbox-message.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';

export interface NatsLimitSettings {
  readonly subjectPrefix: string;
  readonly maxPayloadBytes: number;
  /** On every message. */
  readonly headers?: MessageHeaders;
}

/** The server has no more room for headers in its files. */
const HEADER_BLOCK = 65_535;
/** `NATS/1.0` and the line ends around it. */
const FRAME = 12;
/** `: ` and a line end. */
const PER_LINE = 4;
/** Names and values of what the outbox adds, but for key, type and content type. */
const STANDARD = 320;
/** Of `maxPayloadBytes`, for key and standard headers. */
const KEPT = 4_096;
/** A line of the protocol has 4,096 bytes, with the subject, an inbox and two lengths. */
const SUBJECT_BYTES = 2_048;

/** Written by the outbox, whatever the caller says. */
const STANDARD_NAMES: ReadonlySet<string> = new Set([
  'id',
  'type',
  'version',
  'time',
  'content-type',
  'key',
  'tombstone',
]);

export function natsLimits(settings: NatsLimitSettings): TransportLimits {
  const { subjectPrefix, maxPayloadBytes } = settings;
  const fixed = FRAME + STANDARD + blockSize(settings.headers ?? {});
  return {
    checkTopic: (topic) => subjectProblem(subjectPrefix + topic),
    payloadBytes: maxPayloadBytes - KEPT,
    headerBytes: 32 * 1024,
    tombstones: true,
    check: (message) =>
      textsProblem(message) ?? headersProblem(message.headers) ?? sizeProblem(message, fixed, maxPayloadBytes),
  };
}

/** What nothing can be published to, or should be: the server takes wildcards of a publisher for letters, and consumers cannot. */
export function subjectProblem(subject: string): string | undefined {
  // oxlint-disable-next-line no-control-regex -- they would end the line of the protocol, or hide in it
  if (/[\s\u0000-\u001f\u007f]/.test(subject)) return 'makes a subject with a space or a control character';
  if (/(^|\.)(\.|$)/.test(subject)) return 'makes a subject with an empty token: between two dots, or at an end';
  if (/[*>]/.test(subject)) return 'makes a subject with a wildcard: * or >';
  if (/^(\$|_INBOX\.)/.test(subject)) return "makes a subject of the server's own: $… or _INBOX.…";
  return Buffer.byteLength(subject) > SUBJECT_BYTES ? `makes a subject of more than ${SUBJECT_BYTES} bytes` : undefined;
}

/** Header lines end with the line, and clients cut spaces off. */
export function lineProblem(value: unknown): string | undefined {
  if (typeof value !== 'string') return 'is no text: NATS headers cannot hold bytes';
  if (/[\r\n]/.test(value)) return 'has a line break';
  return value.trim().length < value.length ? 'begins or ends with a space' : undefined;
}

export function nameProblem(name: string): string | undefined {
  if (!/^[!-9;-~]+$/.test(name)) return 'a header name has other characters than ASCII without spaces and colons';
  return STANDARD_NAMES.has(name) || /^nats-/i.test(name) ? `the header name ${name} is reserved` : undefined;
}

function textsProblem({ key, type, contentType }: CheckedMessage): string | undefined {
  for (const [what, value] of Object.entries({ key: key ?? '', type, 'content type': contentType })) {
    const problem = lineProblem(value);
    if (problem !== undefined) return `its ${what} ${problem}`;
  }
  return undefined;
}

export function headersProblem(headers: MessageHeaders): string | undefined {
  for (const [name, value] of Object.entries(headers)) {
    const problem = nameProblem(name);
    if (problem !== undefined) return problem;
    for (const one of valuesOf(value)) {
      const wrong = lineProblem(one);
      if (wrong !== undefined) return `the header ${name} ${wrong}`;
    }
  }
  return undefined;
}

function sizeProblem(message: CheckedMessage, fixed: number, limit: number): string | undefined {
  const { key, type, contentType, headers, payloadBytes } = message;
  const block =
    fixed + blockSize(headers) + [key ?? '', type, contentType].reduce((sum, each) => sum + Buffer.byteLength(each), 0);
  if (block > HEADER_BLOCK) return `its headers take ${block} bytes, NATS holds ${HEADER_BLOCK}`;
  const size = block + payloadBytes;
  return size > limit ? `it has up to ${size} bytes with its headers, more than maxPayloadBytes (${limit})` : undefined;
}

/** A name is repeated for each of several values. */
function blockSize(headers: MessageHeaders): number {
  let size = 0;
  for (const [name, value] of Object.entries(headers))
    for (const one of valuesOf(value)) size += Buffer.byteLength(name) + Buffer.byteLength(one as string) + PER_LINE;
  return size;
}

export function valuesOf(value: HeaderValue): readonly (string | Uint8Array)[] {
  return Array.isArray(value) ? (value as readonly (string | Uint8Array)[]) : [value as string | Uint8Array];
}
