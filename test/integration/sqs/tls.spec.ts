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
        client: {
          ...configFor(`https://${host}:${port}`),
          ...(ca !== undefined && { requestHandler: { httpsAgent: { ca } } }),
        },
      }).create() as Promise<OutboxTransport>,
    topic: () => observer.queue(),
    total: (topic) => observer.depth(topic),
    refusal: (code) => ({ reason: expect.stringMatching(new RegExp(`^${code}`)) }),
    flood: { count: 5_000, size: 2_000, most: 1_000_000 },
  });
});
