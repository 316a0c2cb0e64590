import type { Classifier, TransportDefinition } from '../../../lib/index.js';
import { mqtt } from '../../../lib/transports/mqtt/index.js';
import type { TransportSettings } from './options.js';

export function transport({ brokerUrl, run = 0 }: TransportSettings, name: string): TransportDefinition {
  return mqtt({ url: brokerUrl, topicPrefix: `${name}/`, headers: { run: String(run) }, keepAlive: '5s' });
}

/** What nobody subscribes to would wait for a subscriber: of the topic `nowhere` it is the message that nobody takes. */
export const classify: Classifier = (error, { topic }) => {
  const { reason } = error as { reason?: unknown };
  return topic === 'nowhere' && reason === 'no-subscribers' ? 'message' : undefined;
};
