import { randomUUID } from 'node:crypto';
import { systemClock, within } from '../../time/clock.js';
import { found, isOk, type Finding } from '../diagnosis.js';
import type { BrokerQuestion, ExpectedMessages } from '../transport.js';
import type { RabbitMqConnection } from './connection.js';
import type { RabbitMqLink } from './link.js';
import { askBeside, look, NOT_FOUND, placesOf, type PlaceAnswer } from './missing.js';
import { replyCodeOf } from '../amqp/errors.js';
import type { RabbitMqSettings } from './options.js';

/** Asks over a connection of its own, by passive declarations, which make nothing. */
export async function diagnose(
  { source }: Pick<RabbitMqLink, 'source'>,
  settings: RabbitMqSettings,
  { transport, expected }: BrokerQuestion,
  signal: AbortSignal,
): Promise<Finding[]> {
  const places = placesOf(settings, [...expected, ...ofTopology(settings)]);
  const findings = await askBeside(source, signal, async (connection) => {
    const answers = await look(connection, places);
    await publishNothing(connection);
    const { blocked, model } = connection;
    return judge(transport, { server: serverOf(model), blocked }, answers, bindings(settings, expected));
  });
  return findings ?? [notAsked(transport)];
}

/** Queues that the options name, as destinations of the default exchange. */
function ofTopology({ topology }: RabbitMqSettings): ExpectedMessages[] {
  if (topology === undefined || typeof topology === 'function') return [];
  return (topology.assertQueue ?? []).map(({ name }) => ({
    topic: name,
    options: { rabbitmq: { exchange: '', routingKey: name } },
  }));
}

/** Exchanges with the routing keys that messages will have, as far as it is known before there is one. */
function bindings(
  { exchange, routingKey }: RabbitMqSettings,
  expected: readonly ExpectedMessages[],
): ReadonlyMap<string, readonly string[]> {
  const keys = new Map<string, Set<string>>();
  for (const { topic, options } of expected) {
    const to = options?.rabbitmq?.exchange ?? exchange;
    const key = options?.rabbitmq?.routingKey ?? (routingKey === undefined ? topic : undefined);
    if (options === null || to === '' || key === undefined) continue;
    keys.set(to, (keys.get(to) ?? new Set()).add(key));
  }
  return new Map([...keys].map(([to, set]) => [to, [...set].sort().slice(0, KEYS)]));
}

/**
 * RabbitMQ tells of an alarm only who publishes, and reads nothing more of that connection: so it gets an empty message that no
 * queue takes, and a question behind it. Where the login may not do so, nothing is known.
 */
async function publishNothing(connection: RabbitMqConnection): Promise<void> {
  const { model } = connection;
  const blocked = new Promise<unknown>((resolve) => model.on('blocked', resolve));
  const asked = connection.openChannel().then((channel) => {
    channel.publish('', `nestjs-outbox.doctor.${randomUUID()}`, Buffer.alloc(0));
    return channel.checkExchange('amq.direct');
  });
  await within(systemClock, ALARM_TIMEOUT, Promise.race([blocked, asked.catch(() => undefined)]));
}

function serverOf(model: { readonly connection: object }): string {
  const { serverProperties } = model.connection as { serverProperties?: Record<string, unknown> };
  const { product = 'RabbitMQ', version = '' } = serverProperties ?? {};
  return `${String(product)} ${String(version)}`.trim();
}

/** Pure. */
function judge(
  transport: string,
  { server, blocked }: { readonly server: string; readonly blocked: string | undefined },
  answers: readonly PlaceAnswer[],
  keys: ReadonlyMap<string, readonly string[]>,
): Finding[] {
  return [
    blocked === undefined
      ? isOk('broker', `${server} answers to '${transport}'.`, { transport, server })
      : alarmed(transport, server, blocked),
    ...answers.map((each) => ofPlace(transport, each)),
    ...[...keys].map(([exchange, routingKeys]) => unknowable(transport, exchange, routingKeys)),
  ];
}

const alarmed = (transport: string, server: string, blocked: string): Finding =>
  found(
    'broker',
    'error',
    {
      text: `${server} has an alarm, and asks '${transport}' to wait: ${blocked}.`,
      evidence: { transport, server, blocked },
    },
    'Nothing is published to it until the alarm ends; messages wait, and no attempt is charged.',
    'Make room on the node that rabbitmqctl status names, or raise its limit: rabbitmqctl set_vm_memory_high_watermark 0.6, rabbitmqctl set_disk_free_limit 50MB. The relay then continues by itself.',
  );

function ofPlace(transport: string, { destination: name, place, error, reply }: PlaceAnswer): Finding {
  const kind = 'queue' in place ? 'queue' : 'exchange';
  const refusedWith = error === undefined ? null : (replyCodeOf(error) ?? 0);
  const { messageCount: messages = null, consumerCount: consumers = null } = Object(reply) as Record<string, number>;
  const evidence = { transport, destination: name, replyCode: refusedWith, messages, consumers };
  if (refusedWith === null) return there(name, kind, evidence);
  if (refusedWith !== NOT_FOUND)
    return found(
      'not-asked',
      'warning',
      { text: `RabbitMQ does not tell whether the ${kind} is there (${name}, ${refusedWith}).`, evidence },
      'Whether messages get there is not known.',
      'Give the login the right to configure or read it, or look with: rabbitmqctl list_queues, rabbitmqctl list_exchanges.',
    );
  const fix =
    'queue' in place
      ? `Declare the queue '${place.queue}', by its consumer or by topology.assertQueue of rabbitmq().`
      : `Declare the exchange '${place.exchange}', by its consumers or by topology.assertExchange of rabbitmq().`;
  return found(
    'destination-missing',
    'error',
    { text: `RabbitMQ has no ${kind} for messages of '${transport}': ${name}.`, evidence },
    'Its messages wait; no attempt is charged.',
    fix,
  );
}

function there(name: string, kind: string, evidence: Finding['evidence']): Finding {
  const { messages, consumers } = evidence;
  if (kind === 'queue' && consumers === 0 && Number(messages) > 0)
    return found(
      'consumer-missing',
      'note',
      { text: `${name}: ${String(messages)} messages wait in the queue, and it has no consumer.`, evidence },
      'What is published arrives nowhere for now. The queue grows.',
      'Start a consumer of the queue.',
    );
  return isOk('destination', `RabbitMQ has ${name}.`, evidence);
}

/** AMQP has no question about a binding, an argument of a queue, or a policy. */
function unknowable(transport: string, exchange: string, routingKeys: readonly string[]): Finding {
  const keys = routingKeys.map((key) => `'${key}'`).join(', ');
  return found(
    'not-knowable',
    'note',
    {
      text: `AMQP does not tell which queues the exchange '${exchange}' leads to, for ${keys}, nor their TTL, length limits and policies.`,
      evidence: { transport, exchange, routingKeys: routingKeys.join(', ') },
    },
    'A message that no queue takes comes back as a failure, and waits. A queue with a TTL, or one that drops its oldest messages, loses what was published.',
    `rabbitmqctl list_bindings source_name destination_name routing_key; rabbitmqctl list_queues name arguments policy`,
  );
}

const notAsked = (transport: string): Finding =>
  found(
    'not-asked',
    'note',
    { text: `The connection of '${transport}' is the application's, and is not asked over.`, evidence: { transport } },
    'Whether the destinations are there is not known: a missing one would close a channel of that connection.',
    'Give rabbitmq() a url, or look with: rabbitmqctl list_queues, rabbitmqctl list_exchanges.',
  );

/** Routing keys that are named for an exchange. */
const KEYS = 20;
/** Milliseconds. */
const ALARM_TIMEOUT = 1_500;
