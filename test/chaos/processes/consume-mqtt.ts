import { connect } from 'mqtt';
import { SEASONAL } from '../settings.js';
import type { Sight, Visitor } from './consumer-process.js';

/** One session for all, which outlives its connections: the broker keeps what comes meanwhile, in order. */
export async function consume(url: string, transports: readonly string[], sight: Sight): Promise<Visitor> {
  const client = connect(url, {
    protocolVersion: 5,
    clientId: 'chaos-consumer',
    clean: false,
    reconnectPeriod: 200,
    connectTimeout: 3_000,
    keepalive: 5,
    properties: { sessionExpiryInterval: 24 * 3_600, receiveMaximum: 1_000 },
  });
  client.on('error', () => undefined);
  client.on('message', (topic, payload, { dup, properties }) => {
    const run = Number((properties?.userProperties as { run?: string } | undefined)?.run);
    sight(transports.indexOf(topic.split('/')[0]!), run, dup, payload);
  });
  await new Promise((resolve) => client.once('connect', resolve));
  const join = async (topic: string): Promise<void> => void (await client.subscribeAsync(topic, { qos: 1 }));
  const seasonal = (transport: number): string => `${transports[transport]}/${SEASONAL}`;
  for (const [index, name] of transports.entries()) {
    await join(`${name}/orders`);
    await join(seasonal(index));
  }
  return {
    join: (transport) => join(seasonal(transport)),
    /** What came before is in the session's queue, and comes all the same. */
    async leave(transport) {
      await client.unsubscribeAsync(seasonal(transport));
      return true;
    },
  };
}
