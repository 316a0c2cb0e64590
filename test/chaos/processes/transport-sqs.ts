import type { Classifier, TransportDefinition } from '../../../lib/index.js';
import { sqs } from '../../../lib/transports/sqs/index.js';
import type { TransportSettings } from './options.js';

export function transport({ brokerUrl, run = 0 }: TransportSettings, name: string): TransportDefinition {
  const credentials = { accessKeyId: 'chaos', secretAccessKey: 'chaos' };
  return sqs({
    client: { endpoint: brokerUrl, region: 'elasticmq', credentials },
    queuePrefix: `${name}-`,
    queueSuffix: '.fifo',
    maxRequests: 10,
    headers: { run: String(run) },
  });
}

/** There is no queue for `nowhere`, and what would wait for one is the message that nobody takes. */
export const classify: Classifier = (error, { topic }) =>
  topic === 'nowhere' && (error as { reason?: unknown }).reason === 'QueueDoesNotExist' ? 'message' : undefined;
