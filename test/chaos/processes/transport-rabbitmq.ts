import type { Classifier, TransportDefinition } from '../../../lib/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import type { TransportSettings } from './options.js';

export function transport({ brokerUrl, run = 0 }: TransportSettings, name: string): TransportDefinition {
  return rabbitmq({ url: brokerUrl, exchange: name, appId: String(run) });
}

/** What no queue takes would wait for one: of the topic `nowhere` it is the message that nobody takes. */
export const classify: Classifier = (error, { topic }) => {
  const { code, reason } = error as { code?: unknown; reason?: unknown };
  return topic === 'nowhere' && code === 'PUBLISH_REJECTED' && reason === 'unroutable' ? 'message' : undefined;
};
