import { meantHint } from './did-you-mean.js';
import { OutboxMessageError, type OutboxErrorCode } from '../outbox.errors.js';

export function refuseUnknown(given: object, known: readonly string[], subject: string): void {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue;
    const hint = meantHint(name, known);
    throw new OutboxMessageError('INVALID_MESSAGE', `${subject}: unknown field '${name.slice(0, 100)}'.`, { hint });
  }
}

export function refuse(
  subject: string,
  problem: string,
  code: OutboxErrorCode = 'INVALID_MESSAGE',
  hint?: string,
): never {
  throw new OutboxMessageError(code, `${subject}: ${problem}.`, hint === undefined ? {} : { hint });
}
