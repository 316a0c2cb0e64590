import { type TransportDefinition, type TransportLimits, OutboxMessage, OutboxError } from '../../lib/index.js';
import { Destinations } from '../../lib/enqueue/destinations.js';
import { EventRegistry } from '../../lib/enqueue/events/event-registry.js';
import { jsonSerializer } from '../../lib/message/json-serializer.js';
import type { EnqueueRuntime } from '../../lib/enqueue/runtime.js';
import { toMessage, type MessageRules } from '../../lib/enqueue/to-message.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { type NewMessage } from '../../lib/outbox-message.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';

export function definition(limits?: TransportLimits): TransportDefinition {
  const create = (): never => {
    throw new Error('An enqueue must not create a transport.');
  };
  return { kind: 'test', receipt: 'broker', create, ...(limits === undefined ? {} : { limits }) };
}

/** What the enqueue side reads of the options. */
export function enqueueOptions(overrides: Partial<ResolvedOptions> = {}): ResolvedOptions {
  const transports = new Map([['default', definition()]]);
  return {
    name: 'default',
    transports,
    defaultTransport: [...(overrides.transports ?? transports).keys()][0],
    ordering: 'key',
    buckets: 32,
    currentTransaction: undefined,
    maxPayloadBytes: 1_048_576,
    serializer: jsonSerializer,
    idGenerator: uuidV7,
    ...overrides,
  } as ResolvedOptions;
}

export function idsOf(options: ResolvedOptions): Map<string, number> {
  return new Map([...options.transports.keys()].map((name, index) => [name, index]));
}

export function messageRules(overrides: Partial<ResolvedOptions> = {}): MessageRules {
  const options = enqueueOptions(overrides);
  return { ...options, registry: new EventRegistry(), destinations: new Destinations(options, idsOf(options)) };
}

/** A runtime whose parts fail the test when they are used without being given. */
export function enqueueRuntime(
  dataLayer: EnqueueRuntime['dataLayer'],
  parts: Partial<EnqueueRuntime> = {},
): EnqueueRuntime {
  const options = parts.options ?? enqueueOptions();
  const unused = (): never => {
    throw new Error('Not part of this test.');
  };
  return {
    options,
    dataLayer,
    store: undefined as never,
    transportIds: idsOf(options),
    hooks: { emit: () => undefined, has: () => false },
    events: { on: unused, once: unused, dropped: 0 },
    report: { stats: unused, health: unused },
    workAppeared: () => undefined,
    ...parts,
  };
}

/** The error that `work` throws or rejects with, reduced to what callers rely on. */
export async function refusal(work: () => unknown): Promise<{ code: string; message: string; error: OutboxError }> {
  try {
    await work();
  } catch (error) {
    if (error instanceof OutboxError) return { code: error.code, message: error.message, error };
    throw error;
  }
  throw new Error('Nothing was refused.');
}

/** What an enqueue makes of an input for this one destination, as its relay would read it back; the error where it refuses. */
export function enqueued(
  input: unknown,
  { limits }: Pick<TransportDefinition, 'limits'>,
  maxPayloadBytes = 2 ** 27,
): OutboxMessage | OutboxError {
  const transports = new Map([['default', definition(limits)]]);
  try {
    return stored(toMessage(input, {}, messageRules({ transports, maxPayloadBytes }))[0] as NewMessage);
  } catch (error) {
    if (error instanceof OutboxError) return error;
    throw error;
  }
}

let seq = 0;
/** As a store would read it. */
export function stored({ headers, options, payload, ...rest }: NewMessage): OutboxMessage {
  return new OutboxMessage({
    ...rest,
    seq: String(++seq),
    headersJson: headers,
    optionsJson: options,
    body: payload === null ? null : Buffer.from(payload),
    createdText: '2026-11-21 10:05:01.5+00',
    attempts: 0,
    parkedId: null,
    parkedState: null,
  });
}
