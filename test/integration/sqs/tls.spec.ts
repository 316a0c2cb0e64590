import type { OutboxTransport } from '../../../lib/index.js';
import { sqs } from '../../../lib/transports/sqs/index.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { configFor, SqsObserver } from '../../support/sqs.js';
import { describeTls } from '../../support/tls-contract.js';

describeWith('sqs', 'sqs() over TLS', () => {
  let observer: SqsObserver;
  describeTls({
    start() {
      observer = new SqsObserver(requiredUrl('sqs'));
      return Promise.resolve(requiredUrl('sqs'));
    },
    stop: () => observer.close(),
    open: ({ host, port }, ca) =>
      sqs({
        // One connection: those that are opened while it is stalled would be served.
        maxRequests: 1,
        maxMessageBytes: 1_048_576,
        client: {
          ...configFor(`https://${host}:${port}`),
          ...(ca !== undefined && { requestHandler: { httpsAgent: { ca } } }),
        },
      }).create() as Promise<OutboxTransport>,
    topic: () => observer.queue(),
    total: (topic) => observer.depth(topic),
    refusal: (code) => ({ reason: expect.stringMatching(new RegExp(`^${code}`)) }),
    flood: { count: 100, size: 100_000, most: 600_000 },
  });
});
