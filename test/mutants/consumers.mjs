/** Nest consumers, and what a first day meets. */
export const CONSUMERS = [
  {
    name: 'nest-finds-no-pattern',
    breaks: 'a RabbitMQ server of Nest drops what rabbitmq() sent',
    file: 'lib/consumer/outbox-deserializer.ts',
    from: 'const labels = labelsOfAmqp(properties);',
    to: 'const labels = labelsOfAmqp({ ...Object(properties), headers: undefined });',
    contract: 'test/integration/rabbitmq/consumer.spec.ts',
    simulation: false,
    chaos: false,
  },
  {
    name: 'payload-taken-for-a-packet',
    breaks: 'an event with a member called pattern is routed by that',
    file: 'lib/consumer/labels.ts',
    from: "return labels.headers[STANDARD_HEADERS.contentType] !== undefined && isRecord(body) && 'pattern' in body;",
    to: "return labels.id !== '' && isRecord(body) && 'pattern' in body;",
    contract: 'test/integration/rabbitmq/consumer.spec.ts',
    simulation: false,
    chaos: false,
  },
  {
    name: 'bytes-from-decoded-text',
    breaks: 'bytes that Nest decoded as text are given as if they were what was sent',
    file: 'lib/consumer/received-message.ts',
    from: 'if (!this.labels.json) return this.bytes;',
    to: 'if (!this.labels.json) return value;',
    contract: 'test/integration/kafka/consumer.spec.ts',
    simulation: false,
    chaos: false,
  },
];
