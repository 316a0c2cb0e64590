import { sep } from 'node:path';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxError } from '../../outbox.errors.js';
import type { PublishFailure } from '../transport.js';

export interface HandlerFailure {
  readonly id: string;
  readonly error: unknown;
  /** It took all the time that there was. */
  readonly isHanging: boolean;
}

/** Everything that can keep a message from its handlers. */
export type HandlerTrouble =
  /** Threw, rejected or hung: by handler id. */
  | { readonly kind: 'failed'; readonly failures: readonly HandlerFailure[] }
  /** Were not called: a call of an earlier try still runs, or calls that may hang have all the slots that they may have. */
  | { readonly kind: 'busy'; readonly ids: readonly string[]; readonly retryIn: number | undefined }
  /** Still ran when the relay ended the publish before its time was over. */
  | { readonly kind: 'cut-off'; readonly ids: readonly string[] }
  /** Nobody in this process handles the event. */
  | { readonly kind: 'missing'; readonly message: Pick<OutboxMessage, 'type' | 'version'> }
  /** Others of the batch took all the time, or the relay stops: nothing was tried. */
  | { readonly kind: 'not-started' };

/**
 * Who is to blame, pure. There is no broker that could be away: what a handler throws, also over a server that it needs,
 * is charged to the message, or one broken handler would stop all others. Who knows better says so with `retry.classify`
 * (`transport` waits for everybody, and counts nothing).
 *
 * - A handler that hangs is a failed one. While that call still runs the message is put off, which is nobody's attempt.
 * - One that a stop does not wait for has done nothing wrong: no attempt, or every deployment would cost long handlers one.
 * - A missing handler is nobody's attempt, and never a success: the next deployment may bring it.
 */
export function blameFor(trouble: HandlerTrouble): PublishFailure {
  switch (trouble.kind) {
    case 'failed': {
      const { failures } = trouble;
      const ids = failures.map(({ id, error, isHanging }) => id + (isHanging ? '' : placeOf(error))).join(', ');
      const cause = failures.length === 1 ? failures[0]?.error : new AggregateError(failures.map(({ error }) => error));
      const error = new OutboxError('HANDLER_FAILED', `Failed: ${ids}.`, { cause });
      const hanging = failures.find(({ isHanging }) => isHanging);
      return { ok: false, blame: 'message', error, ...(hanging && { destination: handlerName(hanging.id) }) };
    }
    case 'busy': {
      const { ids, retryIn } = trouble;
      const why =
        retryIn === undefined ? 'Calls that may hang have all slots of' : 'A call of an earlier try still runs:';
      const error = new OutboxError('HANDLER_BUSY', `${why} ${ids.join(', ')}.`);
      const destination = handlerName(ids[0] as string);
      return { ok: false, blame: 'transport', suspect: 'handler', destination, error, ...(retryIn && { retryIn }) };
    }
    case 'cut-off': {
      const text = `The relay stopped before they finished: ${trouble.ids.join(', ')}.`;
      return { ok: false, blame: 'transport', error: new OutboxError('TRANSPORT_UNAVAILABLE', text) };
    }
    case 'missing': {
      const { type, version } = trouble.message;
      const text = `No @OnOutboxEvent of this process handles '${type}' version ${version}.`;
      const hint =
        'Provide the handler in this application (one in a lazily loaded module is found once that is loaded), or cancel the message.';
      const error = new OutboxError('HANDLER_MISSING', text, { hint });
      const destination = typeName(trouble.message);
      return { ok: false, blame: 'transport', suspect: 'handler', destination, certain: true, error };
    }
    case 'not-started': {
      const error = new OutboxError('PUBLISH_TIMEOUT', 'There was no time left for this handler.');
      return { ok: false, blame: 'collateral', error };
    }
  }
}

/** Of what a handler threw: the first line of its stack in the application's own code, as ` at dist/mailer.js:12:5`. */
function placeOf(error: unknown): string {
  try {
    const frames = /(?:\n {4}at [^\n]*)+$/.exec((error as Error).stack ?? '')?.[0].split('\n') ?? [];
    const places = frames.map((frame) => /(?:\(|at (?:async )?)(?:file:\/\/)?([^()]*:\d+:\d+)\)?$/.exec(frame)?.[1]);
    const own = places.find((place) => place !== undefined && !/^node:|node_modules/.test(place));
    return own === undefined ? '' : ` at ${own.replace(`${process.cwd()}${sep}`, '')}`;
  } catch {
    return ''; // not every thrown value can be read
  }
}

/** By which health names it. */
export function handlerName(id: string): string {
  return `handler "${id}"`;
}

/** By which health names what nobody here handles. */
export function typeName({ type, version }: Pick<OutboxMessage, 'type' | 'version'>): string {
  return `type "${type}" version ${version}`;
}
