import { OutboxConfigurationError } from '../outbox.errors.js';

/** What the server is makes an outbox on it impossible. */
export const unsuitable = (message: string, hint: string): OutboxConfigurationError =>
  new OutboxConfigurationError('UNSUPPORTED_DATABASE', message, { hint });
