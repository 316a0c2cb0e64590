import type { OutboxTransport, PublishContext, OutboxMessage } from '../../lib/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/rabbitmq.js';
import { startApplication } from '../support/app.js';
import { bench } from '../support/run.js';
import { isSampled, now } from './latencies.js';

/** The id of a sampled message, and when the broker had confirmed it. */
export type Sighting = readonly [id: string, at: number];

/** How often sightings go to the parent; their times were taken before. */
const TELL_EVERY = 200;

/** Notes the confirm of every sampled message. */
function timed(transport: OutboxTransport, seen: (sighting: Sighting) => void): OutboxTransport {
  const publish = transport.publish.bind(transport);
  transport.publish = (batch: readonly OutboxMessage[], context: PublishContext) =>
    publish(batch, {
      ...context,
      report(index, result) {
        const id = batch[index]?.id;
        if (result.ok && id !== undefined && isSampled(id)) seen([id, now()]);
        context.report(index, result);
      },
    });
  return transport;
}

const [url, broker] = process.argv.slice(2) as [string, string];
bench('load-relay', async (closing) => {
  let sightings: Sighting[] = [];
  const definition = rabbitmq({ url: broker });
  const transport = {
    ...definition,
    create: async (...dependencies: unknown[]) =>
      timed(await definition.create(...dependencies), (sighting) => sightings.push(sighting)),
  };
  const telling = setInterval(() => {
    if (sightings.length > 0) process.send?.(sightings);
    sightings = [];
  }, TELL_EVERY);
  closing.add(() => clearInterval(telling));
  await startApplication(closing, url, { transports: { default: transport } });
  process.send?.('ready');
  await new Promise<void>((resolve) => process.once('disconnect', resolve));
  return {};
});
