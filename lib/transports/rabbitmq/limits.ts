import type { MessageHeaders } from '../../outbox-message.js';
import {
  enqueuedOptionsProblem,
  FRAME_MAX,
  namesProblem,
  SHORT,
  shortProblem,
  STANDARD_NAMES,
  standardSize,
  tableLimit,
  tableProblem,
  tableSize,
} from '../amqp/limits.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';
import type { RabbitMqSettings, RabbitMqUrl } from './options.js';

export function rabbitMqLimits(settings: RabbitMqSettings): TransportLimits {
  const { routingKey, maxPayloadBytes, cloudEvents } = settings;
  const table = tableLimit(
    Math.min(...settings.servers.map((server) => (typeof server === 'function' ? FRAME_MAX : frameMaxOf(server)))),
  );
  const fixed =
    tableSize(settings.headers ?? {}) + Buffer.byteLength(cloudEvents?.source ?? '') + (cloudEvents ? 120 : 0);
  const standard = cloudEvents === undefined ? STANDARD_NAMES : ['tombstone', '__proto__'];
  return {
    // What routingKey() makes of the topic is checked when it is published.
    ...(routingKey === undefined ? { topicBytes: SHORT } : {}),
    payloadBytes: maxPayloadBytes,
    headerBytes: Math.min(32 * 1024, table),
    tombstones: true,
    check: ({ type, contentType, headers, options }: CheckedMessage) =>
      enqueuedOptionsProblem(options.rabbitmq) ??
      shortProblem('type', options.rabbitmq?.type ?? type) ??
      shortProblem('contentType', contentType) ??
      namesProblem(headers, standard) ??
      (cloudEvents === undefined ? undefined : prefixProblem(headers)) ??
      tableProblem(tableSize(headers) + fixed + standardSize(type), table),
  };
}

function prefixProblem(headers: MessageHeaders): string | undefined {
  return Object.keys(headers).some((name) => name.startsWith('cloudEvents:'))
    ? 'header names with cloudEvents: are reserved'
    : undefined;
}

function frameMaxOf(server: RabbitMqUrl): number {
  const given =
    typeof server === 'string' ? (new URL(server).searchParams.get('frameMax') ?? undefined) : server.frameMax;
  const bytes = given === undefined ? FRAME_MAX : Number(given);
  return bytes > 0 ? bytes : Infinity;
}
