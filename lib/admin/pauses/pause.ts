import { refuse } from '../../options/refuse.js';
import { MAX_CHARACTERS, MAX_KEY_BYTES, textProblem } from '../../options/text-checks.js';
import { redact } from '../../observe/redact/error-text.js';
import { printable } from '../../observe/redact/printable.js';
import type { ActReport, OperatorStore, PauseStep } from '../../store/operator-store.js';
import { isWhole, type PauseScope } from '../../store/pauses/pause-store.js';
import { actorOf } from '../actor.js';
import { checkObject } from '../checks.js';

/** A transport, or a part of it. */
export interface PauseSubject {
  /** One that is registered, also when no live relay has it. */
  transport: string;
  /** Only messages with this topic. Default: of any. */
  topic?: string;
  /** Only messages with this key. Default: with any, or none. */
  key?: string;
}
/** What to pause, and why. */
export interface PauseRequest extends PauseSubject {
  /** For people: whoever is on call reads it. At most 255 characters. */
  reason: string;
  /** Who acts. Default: the user of this process and its machine. */
  by?: string;
}
/** What to let go on. */
export interface ResumeRequest extends PauseSubject {
  /** As of a pause. */
  by?: string;
}
/** A pause that lasts. */
export interface PauseEntry {
  readonly transport: string;
  /** `null`: all topics. */
  readonly topic: string | null;
  /** `null`: all keys, and messages without one. */
  readonly key: string | null;
  /** By the database's clock. */
  readonly since: Date;
  /** As the caller said: no proof of who it was. */
  readonly by: string;
  readonly reason: string;
}
export interface PauseOutcome {
  readonly transport: string;
  /** As of {@link PauseEntry}. */
  readonly topic: string | null;
  readonly key: string | null;
  /** Whether this call changed anything: what is paused is paused once, and keeps its first reason. */
  readonly changed: boolean;
  /** Its number in `audit()`. */
  readonly auditId: string;
}
export interface PauseSources {
  readonly operators: Pick<OperatorStore, 'act' | 'pauses'>;
  /** @throws OutboxMessageError `UNKNOWN_TRANSPORT` */
  numberOf(transport: string, subject: string): Promise<number>;
  /** Relays have something to hear. Must return at once. */
  changed(): void;
}

export async function pause(sources: PauseSources, request: PauseRequest): Promise<PauseOutcome> {
  const { scope, actor, subject } = await checked(sources, 'pause', request, ['reason', 'by']);
  const { reason } = request;
  const problem = textProblem('reason', reason);
  if (problem !== undefined) refuse('pause', problem);
  const parts = (await sources.operators.pauses()).filter((one) => !isWhole(one));
  if (!isWhole(scope) && parts.length >= MOST_PARTS && !parts.some((one) => isSame(one, scope)))
    refuse('pause', `${parts.length} topics and keys are paused already; pause their transport, or resume some`);
  const kept = [...printable(redact(reason))].slice(0, MAX_CHARACTERS).join('');
  return written(sources, { do: 'pause', scope, actor, reason: kept }, { ...subject, reason: kept });
}

export async function resume(sources: PauseSources, request: ResumeRequest): Promise<PauseOutcome> {
  const { scope, actor, subject } = await checked(sources, 'resume', request, ['by']);
  return written(sources, { do: 'resume', scope, actor, reason: '' }, subject);
}

/** The oldest first. */
export async function pauseEntries(operators: Pick<OperatorStore, 'pauses'>): Promise<PauseEntry[]> {
  return (await operators.pauses()).map(({ name, topic, key, since, actor, reason }) => ({
    transport: name,
    topic,
    key,
    since,
    by: printable(actor),
    reason: printable(reason),
  }));
}

const isSame = (one: PauseScope, other: PauseScope): boolean =>
  one.transport === other.transport && one.topic === other.topic && one.key === other.key;

async function checked(sources: PauseSources, action: string, request: PauseSubject & { by?: string }, more: string[]) {
  checkObject(action, 'the request', request, ['transport', 'topic', 'key', ...more]);
  const { transport, topic, key, by } = request;
  const problem =
    textProblem('transport', transport) ??
    ('topic' in request ? textProblem('topic', topic) : undefined) ??
    ('key' in request ? textProblem('key', key, MAX_KEY_BYTES) : undefined);
  if (problem !== undefined) refuse(action, problem);
  const actor = actorOf(action, by);
  const scope = { transport: await sources.numberOf(transport, action), topic: topic ?? null, key: key ?? null };
  const parts = { ...(topic === undefined ? {} : { topic }), ...(key === undefined ? {} : { key }) };
  return { scope, actor, subject: { transport, ...parts } };
}

async function written(
  { operators, changed }: PauseSources,
  step: PauseStep,
  subject: PauseSubject & { readonly reason?: string },
): Promise<PauseOutcome> {
  const { do: action, actor, scope } = step;
  const report = await operators.act({ action, actor, filter: JSON.stringify(subject) }, step);
  const { audit, done } = report as ActReport; // nothing refuses it
  if (done > 0) changed();
  const { topic, key } = scope;
  return { transport: subject.transport, topic, key, changed: done > 0, auditId: audit };
}

/** Relays read all pauses with each heartbeat. */
const MOST_PARTS = 1_000;
