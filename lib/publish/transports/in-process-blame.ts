import type { OutboxMessage } from '../../message.js';
import { OutboxError } from '../../outbox.errors.js';
import type { PublishFailure } from '../transport.js';

/** Everything that can keep a message from its handlers. */
export type HandlerTrouble =
  /** Threw, rejected or hung: by handler id. */
  | { readonly kind: 'failed'; readonly failures: readonly { readonly id: string; readonly error: unknown }[] }
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
 * - A handler that hangs is a failed one. The next try joins the call that still runs.
 * - One that a stop does not wait for has done nothing wrong: no attempt, or every deployment would cost long handlers one.
 * - A missing handler is a retry, never a success: another deployment may bring it.
 */
export function blameFor(trouble: HandlerTrouble): PublishFailure {
  switch (trouble.kind) {
    case 'failed': {
      const { failures } = trouble;
      const ids = failures.map(({ id }) => id).join(', ');
      const cause = failures.length === 1 ? failures[0]?.error : new AggregateError(failures.map(({ error }) => error));
      return { ok: false, blame: 'message', error: new OutboxError('HANDLER_FAILED', `Failed: ${ids}.`, { cause }) };
    }
    case 'cut-off': {
      const text = `The relay stopped before they finished: ${trouble.ids.join(', ')}.`;
      return { ok: false, blame: 'transport', error: new OutboxError('TRANSPORT_UNAVAILABLE', text) };
    }
    case 'missing': {
      const { type, version } = trouble.message;
      const text = `No @OnOutboxEvent of this process handles '${type}' version ${version}.`;
      const hint = 'Provide the handler in this application, or discard the message.';
      return { ok: false, blame: 'message', error: new OutboxError('HANDLER_MISSING', text, { hint }) };
    }
    case 'not-started': {
      const error = new OutboxError('PUBLISH_TIMEOUT', 'There was no time left for this handler.');
      return { ok: false, blame: 'collateral', error };
    }
  }
}
