import type { MessageHeaders } from '../../outbox-message.js';
import { STANDARD_HEADERS } from '../envelope.js';
import type { TransportLimits } from '../transport.js';

/** Fields that hold no header. */
export const KEY_FIELD = 'key';
export const PAYLOAD_FIELD = 'payload';
const OF_THE_OUTBOX: ReadonlySet<string> = new Set([...Object.values(STANDARD_HEADERS), KEY_FIELD, PAYLOAD_FIELD]);

export function redisLimits(maxPayloadBytes: number): TransportLimits {
  return { payloadBytes: maxPayloadBytes, tombstones: true, check: ({ headers }) => namesProblem(headers) };
}

/** Most clients read an entry into a map, where the last field of a name wins. */
export function namesProblem(headers: MessageHeaders): string | undefined {
  const taken = Object.keys(headers).find((name) => OF_THE_OUTBOX.has(name));
  return taken === undefined ? undefined : `the header ${taken} is a field that the outbox writes`;
}
