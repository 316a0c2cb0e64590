import { OutboxError, type OutboxErrorCode } from '../../outbox.errors.js';
import type { Blame, PublishFailure } from '../transport.js';
import { classify, failed, type FailureCause } from '../failure.js';
import { closeReason, missingExchange, replyCodeOf } from './errors.js';
import { exchangeName } from './names.js';

/** Everything that can keep a message from its confirm. */
export type RabbitMqTrouble =
  /** `basic.return`: no queue took it. `refused`: why the topology could not be asserted again. */
  | {
      readonly kind: 'unroutable';
      readonly exchange: string;
      readonly routingKey: string;
      readonly replyCode: number;
      readonly destination?: string;
      readonly refused?: unknown;
    }
  /** `basic.nack`: a queue refused it, as a full one with `overflow: reject-publish` does. */
  | { readonly kind: 'nacked'; readonly destination?: string }
  /** It never left this process: a property, header or option that AMQP cannot carry. */
  | { readonly kind: 'not-encodable'; readonly error: unknown }
  /** An earlier message of its key in the same batch failed (`pipelineKeys`). */
  | { readonly kind: 'overtaking' }
  /** `alone`: nothing else was unconfirmed, so that this message is what the broker closed for. */
  | {
      readonly kind: 'channel-closed';
      readonly error: unknown;
      readonly alone: boolean;
      readonly destination?: string | undefined;
      readonly refused?: unknown;
    }
  | { readonly kind: 'connection-closed'; readonly error: unknown; readonly alone: boolean }
  /** `destination`: others got through meanwhile, so that it is this one that confirms nothing. */
  | { readonly kind: 'not-confirmed'; readonly error?: unknown; readonly destination?: string }
  | { readonly kind: 'blocked'; readonly reason: string }
  | { readonly kind: 'unavailable'; readonly error: unknown };

export type Unroutable = Extract<RabbitMqTrouble, { readonly kind: 'unroutable' }>;

/** What a failed publish says; `reason` and `replyCode` are for `retry.classify`. */
export class RabbitMqPublishError extends OutboxError {
  readonly reason: RabbitMqTrouble['kind'];
  readonly replyCode: number | undefined;

  constructor(code: OutboxErrorCode, message: string, trouble: RabbitMqTrouble) {
    super(code, message, 'error' in trouble ? { cause: trouble.error } : {});
    this.reason = trouble.kind;
    this.replyCode =
      'replyCode' in trouble ? trouble.replyCode : replyCodeOf('error' in trouble ? trouble.error : undefined);
  }
}

/**
 * Who is to blame, in one place and pure.
 *
 * - A nack, unroutable and an exchange that there is not (404) are of the destination: its messages wait, without an attempt
 *   and with their keys behind them, while others go on; one of them is tried now and then.
 * - Of a broker that was away, neither is believed for some seconds: it takes connections before it has found all of its
 *   queues and exchanges again, and an outage costs no attempt.
 * - A close of the channel (404, 403, 406 …) takes innocent neighbours down. Only who was alone is charged, and nobody for a
 *   right (403): it is of the destination as well where others get through, else a login has lost all of its rights.
 * - So does a close of the connection over what was sent (501, 502); a forced or broken one is nobody's fault. Which code
 *   is which: errors.ts.
 */
export function blameFor(trouble: RabbitMqTrouble, recovering = false): PublishFailure {
  const [{ blame, ...rest }, code, text] = verdict(trouble);
  if (recovering && blame === 'message' && trouble.kind !== 'not-encodable') {
    const said = `RabbitMQ was unavailable until a moment ago. ${text}`;
    return failed('transport', new RabbitMqPublishError('TRANSPORT_UNAVAILABLE', said, trouble));
  }
  const error = new RabbitMqPublishError(code, text, trouble);
  const missing = missingOf(trouble, blame);
  if (missing !== undefined)
    return failed('transport', error, { suspect: 'destination', destination: missing, certain: true });
  if (trouble.kind === 'channel-closed' && trouble.destination !== undefined && isRefusal(trouble.error, blame))
    return failed('transport', error, { suspect: 'destination', destination: trouble.destination });
  return failed(blame, error, rest);
}

/** The name of what the broker says that there is not, or that is full. Nothing else is concerned, however many messages go there. */
function missingOf(trouble: RabbitMqTrouble, blame: Blame): string | undefined {
  if (blame !== 'message') return undefined;
  if (trouble.kind === 'unroutable' || trouble.kind === 'nacked') return trouble.destination;
  if (trouble.kind !== 'channel-closed' || replyCodeOf(trouble.error) !== NOT_FOUND) return undefined;
  const exchange = missingExchange(trouble.error);
  return exchange === undefined ? trouble.destination : exchangeName(exchange);
}
const NOT_FOUND = 404;

/** Of a right: this message's, or one that was taken away altogether. */
function isRefusal(error: unknown, blame: Blame): boolean {
  return blame === 'message' && replyCodeOf(error) === ACCESS_REFUSED;
}
const ACCESS_REFUSED = 403;

type Verdict = readonly [
  what: Pick<PublishFailure, 'blame' | 'final' | 'suspect' | 'destination'>,
  code: OutboxErrorCode,
  text: string,
];

function verdict(trouble: RabbitMqTrouble): Verdict {
  switch (trouble.kind) {
    case 'unroutable':
      return [{ blame: 'message' }, 'PUBLISH_REJECTED', unroutableText(trouble)];
    case 'nacked':
      return [{ blame: 'message' }, 'PUBLISH_REJECTED', 'RabbitMQ refused the message (nack): is its queue full?'];
    case 'not-encodable': {
      const final = !(trouble.error instanceof RoutingKeyError);
      return [{ blame: 'message', final }, 'PUBLISH_REJECTED', 'The message cannot be carried by AMQP.'];
    }
    case 'overtaking':
      return [{ blame: 'collateral' }, 'PUBLISH_REJECTED', 'An earlier message of the key failed.'];
    case 'channel-closed': {
      const { name, channel } = closeReason(trouble.error);
      const exchange = missingExchange(trouble.error);
      const text =
        exchange === undefined
          ? `RabbitMQ closed the channel (${name}).`
          : `There is no exchange "${exchange}" (${name}). Create it${byTopology(trouble.refused)}`;
      return closed(channel, trouble.alone, text);
    }
    case 'connection-closed': {
      const { name, connection } = closeReason(trouble.error);
      const isLost = connection.fault === 'transport';
      const how = isLost ? 'The connection to RabbitMQ was lost' : 'RabbitMQ closed the connection';
      return closed(connection, trouble.alone, `${how} (${name}).`);
    }
    case 'not-confirmed': {
      const { destination } = trouble;
      const where = destination === undefined ? {} : { suspect: 'destination' as const, destination };
      return [{ blame: 'transport', ...where }, 'PUBLISH_TIMEOUT', notConfirmed(destination)];
    }
    case 'blocked':
      return [{ blame: 'transport' }, 'TRANSPORT_UNAVAILABLE', `RabbitMQ asks to wait: ${trouble.reason}.`];
    case 'unavailable': {
      const text = `RabbitMQ cannot be reached (${closeReason(trouble.error).name}).`;
      return [{ blame: 'transport' }, 'TRANSPORT_UNAVAILABLE', text];
    }
  }
}

const unroutableText = ({ exchange, routingKey, refused }: Unroutable): string =>
  exchange === ''
    ? `There is no queue "${routingKey}". Declare it${byTopology(refused)}`
    : `No queue takes exchange "${exchange}", routing key "${routingKey}". Bind one${byTopology(refused)}`;

function byTopology(refused: unknown): string {
  const why = refused === undefined ? '' : ` It could not do so the last time (${closeReason(refused).name}).`;
  return `. If \`topology\` of rabbitmq() declares it, the relay makes it by itself.${why}`;
}

const notConfirmed = (destination: string | undefined): string =>
  destination === undefined
    ? 'RabbitMQ did not confirm in time; the connection was destroyed.'
    : `RabbitMQ confirms nothing for ${destination}: does a queue behind it lack its majority, or its node?`;

function closed(cause: FailureCause, alone: boolean, text: string): Verdict {
  const { blame, suspect } = classify(cause, alone ? 1 : SOME);
  const code = blame === 'transport' ? 'TRANSPORT_UNAVAILABLE' : 'PUBLISH_REJECTED';
  return [suspect === undefined ? { blame } : { blame, suspect }, code, text];
}
/** More than one, however many. */
const SOME = 2;

/** A function of the application that failed may work after its next deployment, so its failure is not final. */
export class RoutingKeyError extends Error {}
