import type { Classifier, TransportDefinition } from '../../../lib/index.js';
import { redis } from '../../../lib/transports/redis/index.js';
import type { TransportSettings } from './options.js';

export function transport({ brokerUrl, run = 0 }: TransportSettings, name: string): TransportDefinition {
  return redis({ url: brokerUrl, streamPrefix: `${name}.`, createStreams: false, headers: { run: String(run) } });
}

/** What is no stream would wait for one: of the topic `nowhere` it is the message that nobody takes. */
export const classify: Classifier = (error, { topic }) => {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  return topic === 'nowhere' && code === 'PUBLISH_REJECTED' && cause?.code === 'WRONGTYPE' ? 'message' : undefined;
};
