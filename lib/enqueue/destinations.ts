import { meantHint } from '../options/did-you-mean.js';
import { refuse } from '../options/refuse.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { TransportLimits } from '../transports/transport.js';
import type { Draft } from './draft.js';
import type { EncodedOptions } from './encode-options.js';
import type { EncodedPayload } from './payload.js';
import type { EncodedHeaders } from './headers.js';

/** A transport as the enqueue side knows it: no client, no connection, only its number and what it cannot carry. */
export interface Destination {
  readonly name: string;
  readonly id: number;
  readonly limits: TransportLimits | undefined;
}

export class Destinations {
  readonly byName = new Map<string, Destination>();
  private ofDefault: readonly Destination[] | undefined;

  /** @param ids as registered in the store */
  constructor(
    readonly options: Pick<ResolvedOptions, 'transports' | 'defaultTransport'>,
    ids: ReadonlyMap<string, number>,
  ) {
    for (const [name, definition] of options.transports) {
      const id = ids.get(name);
      if (id !== undefined) this.byName.set(name, Object.freeze({ name, id, limits: definition.limits }));
    }
  }

  /** Of a command line it may not be registered. */
  get byDefault(): readonly Destination[] {
    return (this.ofDefault ??= this.named([this.options.defaultTransport], 'defaultTransport'));
  }

  /** In the order given, each once. */
  named(names: readonly string[], subject: string): readonly Destination[] {
    if (names.length === 0) refuse(subject, 'the list of transports is empty', 'UNKNOWN_TRANSPORT');
    return [...new Set(names)].map((name) => this.byName.get(name) ?? unknown(name, [...this.byName.keys()], subject));
  }
}

/** The number of a transport in the tables. @throws OutboxMessageError `UNKNOWN_TRANSPORT` */
export function numberOf(name: string, ids: ReadonlyMap<string, number>, subject: string): number {
  return ids.get(name) ?? unknown(name, [...ids.keys()], subject);
}

function unknown(name: unknown, known: readonly string[], subject: string): never {
  const text = `there is no transport '${String(name).slice(0, 100)}'`;
  refuse(subject, text, 'UNKNOWN_TRANSPORT', meantHint(name, known));
}

/** What makes a message unfit for a transport, or `undefined`. Here and not at publish time, when nobody can correct it. */
export function limitProblem(
  { topic, key, type }: Pick<Draft, 'topic' | 'key' | 'type'>,
  { bytes: payload, contentType }: EncodedPayload,
  headers: EncodedHeaders,
  options: EncodedOptions,
  { name, limits }: Destination,
): { code: 'INVALID_MESSAGE' | 'PAYLOAD_TOO_LARGE'; problem: string } | undefined {
  if (limits === undefined) return undefined;
  const size = payload?.byteLength ?? 0;
  if (limits.payloadBytes !== undefined && size > limits.payloadBytes) {
    return { code: 'PAYLOAD_TOO_LARGE', problem: tooLong('payload', size, limits.payloadBytes, name) };
  }
  const problem =
    exceeded('topic', Buffer.byteLength(topic), limits.topicBytes, name) ??
    exceeded('key', key === null ? 0 : Buffer.byteLength(key), limits.keyBytes, name) ??
    exceeded('headers', headers.bytes, limits.headerBytes, name) ??
    (payload === null && limits.tombstones === false
      ? `payload is null, but transport '${name}' has no tombstones`
      : undefined) ??
    topicProblem(topic, limits, name) ??
    (limits.check === undefined
      ? undefined
      : otherProblem(
          limits.check({
            topic,
            key,
            type,
            contentType,
            payloadBytes: size,
            headers: headers.map,
            options: options.map,
          }),
          name,
        ));
  return problem === undefined ? undefined : { code: 'INVALID_MESSAGE', problem };
}

function topicProblem(topic: string, limits: TransportLimits, name: string): string | undefined {
  const problem = limits.checkTopic?.(topic);
  return problem === undefined ? undefined : `topic is refused by transport '${name}': ${problem}`;
}
function otherProblem(problem: string | undefined, name: string): string | undefined {
  return problem === undefined ? undefined : `transport '${name}' cannot carry it: ${problem}`;
}
function exceeded(what: string, bytes: number, limit: number | undefined, transport: string): string | undefined {
  return limit !== undefined && bytes > limit ? tooLong(what, bytes, limit, transport) : undefined;
}
function tooLong(what: string, bytes: number, limit: number, transport: string): string {
  return `${what} has ${bytes} bytes, more than the ${limit} of transport '${transport}'`;
}
