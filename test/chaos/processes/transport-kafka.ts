import { connect } from 'node:net';
import type { TransportDefinition } from '../../../lib/index.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import type { TransportSettings } from './options.js';

export function transport(settings: TransportSettings, name: string): TransportDefinition {
  const { brokerUrl, brokerPort = 0, run = 0 } = settings;
  const socketFactory = ({ onConnect }: { onConnect: () => void }) => {
    const socket = connect({ host: '127.0.0.1', port: brokerPort }, onConnect);
    socket.setNoDelay(true);
    return socket;
  };
  return kafka({
    client: { clientId: 'chaos', brokers: [brokerUrl], connectionTimeout: 2_000, socketFactory },
    topicPrefix: `${name}.`,
    headers: { run: String(run) },
  });
}
