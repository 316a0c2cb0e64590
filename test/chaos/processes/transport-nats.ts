import type { Classifier, TransportDefinition } from '../../../lib/index.js';
import { nats } from '../../../lib/transports/nats/index.js';
import type { TransportSettings } from './options.js';

export function transport({ brokerUrl, run = 0 }: TransportSettings, name: string): TransportDefinition {
  return nats({ client: loginOf(brokerUrl), subjectPrefix: `${name}.`, headers: { run: String(run) } });
}

/** The client takes no login from a URL. */
export function loginOf(url: string): { servers: string; user: string; pass: string } {
  const { host, username, password } = new URL(url);
  return { servers: host, user: username, pass: password };
}

/** What no stream takes would wait for one: of the topic `nowhere` it is the message that nobody takes. */
export const classify: Classifier = (error, { topic }) => {
  const { reason } = error as { reason?: unknown };
  return topic === 'nowhere' && reason === 'no-stream' ? 'message' : undefined;
};
