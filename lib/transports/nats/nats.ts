import type { TransportDefinition } from '../../outbox.options.js';
import { markFactory } from '../../options/factory-options.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { brokerAddress } from '../broker-address.js';
import type { BrokerClient } from '../session/session.js';
import { SessionTransport } from '../session/transport.js';
import type { TransportLimits } from '../transport.js';
import { loadNats, type NatsModule } from './client.js';
import { diagnose } from './diagnose.js';
import { judge, subjectName } from './errors.js';
import { natsLimits } from './limits.js';
import { createEncoder } from './message.js';
import { resolveNatsOptions, type NatsOptions, type NatsSettings } from './options.js';
import { NatsSession } from './session.js';
import { findMissing } from './streams.js';

/** Publishes to JetStream of NATS through `@nats-io/transport-node`, which is loaded when a relay starts. */
export function nats(options: NatsOptions): TransportDefinition {
  const settings = resolveNatsOptions(options);
  const limits = natsLimits(settings);
  const { client } = settings;
  const broker = brokerAddress(typeof client === 'function' ? [] : [client.servers ?? '127.0.0.1:4222'].flat());
  return {
    kind: 'nats',
    ...(broker === undefined ? {} : { broker }),
    receipt: 'broker',
    limits,
    warnings: settings.deduplicate ? [] : [DEDUPLICATE_WARNING],
    create: async () => new SessionTransport(brokerOf(await loadNats(), settings, limits)),
  };
}
markFactory(nats, 'nats({ … })');

const DEDUPLICATE_WARNING =
  'nats({ deduplicate: false }): a message that is sent again is stored twice. Leave deduplicate out, unless one message goes to two subjects of one stream.';

function brokerOf(module: NatsModule, settings: NatsSettings, limits: TransportLimits): BrokerClient {
  const encode = createEncoder(settings);
  const destinationOf = (message: OutboxMessage): string => subjectName(settings.subjectPrefix + message.topic);
  return {
    name: 'NATS',
    limits,
    judge: (error, message) => judge(error, message && destinationOf(message)),
    open: (signal, events) => NatsSession.open(module, settings, encode, signal, events),
    destinationOf,
    findMissing: (expected, signal) => findMissing(module, settings, expected, signal),
    diagnose: (question, signal) => diagnose(module, settings, question, signal),
  };
}
