import type { RabbitMqMessageOptions } from '../../outbox-message.js';
import {
  enqueuedOptionsProblem,
  MAX_HEADER_TABLE,
  namesProblem,
  shortProblem,
  STANDARD_NAMES,
  standardSize,
  tableProblem,
  tableSize,
} from '../amqp/limits.js';
import type { CheckedMessage, TransportLimits } from '../transport.js';

/**
 * ClientRMQ: the payload travels inside Nest's packet, the rest as with rabbitmq(), but for the place.
 *
 * @param readsOptions whether functions of the application see the message, and may do something with the place
 */
export function rmqClientLimits(readsOptions = false): TransportLimits {
  const standard = [...STANDARD_NAMES, 'content-type'];
  return {
    check: ({ type, contentType, headers, options }: CheckedMessage) =>
      enqueuedOptionsProblem(options.rabbitmq) ??
      shortProblem('type', options.rabbitmq?.type ?? type) ??
      (readsOptions ? undefined : placeProblem(options.rabbitmq)) ??
      namesProblem(headers, standard) ??
      tableProblem(tableSize(headers) + standardSize(type) + Buffer.byteLength(contentType), MAX_HEADER_TABLE),
  };
}

/** A ClientRMQ sends everything to its own queue, or to its own exchange by the pattern, and would be confirmed there. */
export function placeProblem(options: RabbitMqMessageOptions | undefined): string | undefined {
  const name = (['exchange', 'routingKey'] as const).find((one) => options?.[one] !== undefined);
  return name && `${name} has no effect with ClientRMQ, which sends to a queue or exchange of its own`;
}
