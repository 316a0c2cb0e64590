import type { HeaderValue } from '../../outbox-message.js';
import { refuse, refuseUnknown } from '../../options/refuse.js';
import { textProblem, typeName } from '../../options/text-checks.js';
import { actorOf } from '../actor.js';
import { checkedFlag, checkObject } from '../checks.js';

/** What of a message is to be otherwise. What is left out stays. */
export interface MessageChanges {
  /**
   * Bytes as they are; a string as the text of the content type (JSON must parse); `null` a tombstone; all else through the
   * serializer of the options. At most `maxPayloadBytes`. An encrypted one is given in clear, and encrypted again.
   */
  payload?: unknown;
  /** Of the payload. Default: as it was. */
  contentType?: string;
  /** 1 to 255 characters, and what its transport takes. */
  topic?: string;
  /** 1 to 255 characters. */
  type?: string;
  /** A value sets a header, `null` removes one. Others stay. Headers that are no JSON, as another program wrote them, are replaced. */
  headers?: Readonly<Record<string, HeaderValue | null>>;
}
/** How a message is edited. */
export interface EditOptions {
  /** In which transport, where several have the message waiting. */
  transport?: string;
  /** `revision` of `show()`: the edit is refused when the message has changed since. Default: as it is when the call reads it. */
  expect?: string;
  /** Tried again at once, with all its attempts, in its old place of the key's order. Not of a scheduled one. Default false. */
  requeue?: boolean;
  /** Who acts, for the audit. Default: the user of this process and its machine. */
  by?: string;
}
export interface CheckedEdit {
  readonly transport: string | undefined;
  readonly expect: string | undefined;
  readonly requeue: boolean;
  readonly actor: string;
  readonly dryRun: boolean;
}

const CHANGES = ['payload', 'contentType', 'topic', 'type', 'headers'] as const;
const OPTIONS = ['transport', 'expect', 'requeue', 'by', 'dryRun'];
const TEXTS = ['topic', 'type', 'contentType'] as const;
const ANOTHER = 'Discard the message and enqueue another one';
/** What hangs on each of them. */
const FIXED: Readonly<Record<string, string>> = {
  id: 'consumers know the message by it',
  key: 'its order and its bucket depend on it',
  bucket: 'it is made from the key',
  transport: 'its bucket and its number belong to it; options.transport says in which one to edit',
  version: 'consumers choose their code by it',
  options: 'they may lead it past others of its key',
  dedupKey: 'repeated enqueues find the message by it',
};

/** @throws OutboxMessageError `INVALID_MESSAGE` */
export function checkedChanges(changes: MessageChanges): MessageChanges {
  if (typeof changes !== 'object' || changes === null)
    refuse('edit', `changes must be an object, not ${typeName(changes)}`);
  for (const name of Object.keys(changes))
    if (Object.hasOwn(FIXED, name))
      refuse('edit', `${name} cannot be changed: ${FIXED[name]}`, 'INVALID_MESSAGE', `${ANOTHER}.`);
  refuseUnknown(changes, CHANGES, 'edit');
  if (CHANGES.every((name) => changes[name] === undefined))
    refuse('edit', 'there is no change', 'INVALID_MESSAGE', `Give at least one of ${CHANGES.join(', ')}.`);
  for (const name of TEXTS) {
    const problem = changes[name] === undefined ? undefined : textProblem(name, changes[name]);
    if (problem !== undefined) refuse('edit', problem);
  }
  const { headers } = changes;
  if (headers === undefined) return changes;
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    refuse('edit', `headers must be an object of names and values, not ${typeName(headers)}`);
  if (Object.keys(headers).length === 0) refuse('edit', 'headers names none');
  return changes;
}

/** @throws OutboxMessageError `INVALID_MESSAGE` */
export function checkedEdit(options: EditOptions & { dryRun?: boolean }): CheckedEdit {
  checkObject('edit', 'options', options, OPTIONS);
  const { transport, expect, by } = options;
  const [requeue, dryRun] = [
    checkedFlag('edit', 'requeue', options.requeue),
    checkedFlag('edit', 'dryRun', options.dryRun),
  ];
  if (expect !== undefined && !(typeof expect === 'string' && /^[0-9a-f]{16}$/.test(expect)))
    refuse('edit', 'expect must be the revision that show() has');
  return { transport, expect, requeue, actor: actorOf('edit', by), dryRun };
}
