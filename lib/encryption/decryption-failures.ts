import { OutboxUndecryptableError } from '../message/encryption.js';
import type { OutboxMessage } from '../outbox-message.js';
import { OutboxError } from '../outbox.errors.js';
import type { PublishFailure } from '../transports/transport.js';

/** It is at fault itself: an attempt of its own. */
export function messageFailure(
  { id }: OutboxMessage,
  problem: string,
  { cause, final }: { readonly cause?: unknown; readonly final?: true } = {},
): PublishFailure {
  const text = `The message ${id} cannot be published: ${problem}.`;
  const isFinal = final === true || cause instanceof OutboxUndecryptableError;
  const error = new OutboxError('DECRYPTION_FAILED', text, { cause });
  return { ok: false, blame: 'message', error, ...(isFinal && { final: true }) };
}

/** The same text for all messages of the key, which a log says once. */
export function keyFailure(keyId: string, cause: unknown): PublishFailure {
  const name = keyName(keyId);
  const hint = 'Its messages wait, without an attempt: bring the key back, or discard them.';
  const error = new OutboxError('DECRYPTION_FAILED', `Nothing can be decrypted with ${name} now.`, { cause, hint });
  return { ok: false, blame: 'transport', suspect: 'key', destination: name, error };
}

/** As logs and health say it; foreign rows may hold anything. */
export const keyName = (keyId: string): string => `key ${JSON.stringify(keyId.slice(0, 255))}`;

export function behind(): PublishFailure {
  const error = new OutboxError('DECRYPTION_FAILED', 'An earlier message of its key could not be decrypted.');
  return { ok: false, blame: 'collateral', error };
}

/**
 * Whether it is no outage: the key is gone for good, or it is there and the bytes do not belong to it, as node:crypto and WebCrypto
 * say it.
 */
export function speaksOfTheMessage(error: unknown): boolean {
  if (error instanceof OutboxUndecryptableError) return true;
  const { name, code, message } = Object(error) as { name?: unknown; code?: unknown; message?: unknown };
  if (name === 'OperationError' || String(code).startsWith('ERR_OSSL_')) return true;
  return typeof message === 'string' && message.includes('unable to authenticate data');
}
