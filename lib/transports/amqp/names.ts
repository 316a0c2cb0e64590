/** Headers that only AMQP needs, which has no place for either. */
export const KEY_HEADER = 'key';
export const TOMBSTONE_HEADER = 'tombstone';

export function nameOf(exchange: string, routingKey: string): string {
  return exchange === '' ? `queue "${routingKey}"` : `exchange "${exchange}", routing key "${routingKey}"`;
}

/** Of all that goes there, whatever its routing key. */
export function exchangeName(exchange: string): string {
  return `exchange "${exchange}"`;
}
