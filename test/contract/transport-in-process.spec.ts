// @tier fast
import type { OutboxMessage } from '../../lib/index.js';
import { inProcess } from '../../lib/transports/in-process/in-process.js';
import { InProcessHandlers } from '../../lib/transports/in-process/handlers.js';
import { describeTransportContract, RecordingTransport, type TransportHarness } from '../../lib/testing/index.js';

type Received = Awaited<ReturnType<NonNullable<TransportHarness['received']>>>;
const received = (all: readonly OutboxMessage[], topic: string): Received =>
  all
    .filter((message) => message.topic === topic)
    .map(({ id, key, payload, headers }) => ({ id, key, payload, headers }));

const handled: OutboxMessage[] = [];
const handlers = new InProcessHandlers();
handlers.add({ id: 'keep', type: 'contract.tested', version: undefined, call: (message) => handled.push(message) });
handlers.add({
  id: 'refuse',
  type: 'poison',
  version: undefined,
  call: () => {
    throw new Error('refused');
  },
});

describeTransportContract('inProcess()', {
  create: () => inProcess().create(handlers),
  received: async (topic) => received(handled, topic),
  poison: (topic) => ({ topic, type: 'poison' }),
  timeout: 60_000,
});

const recordings: RecordingTransport[] = [];
describeTransportContract('RecordingTransport', {
  create() {
    const transport = new RecordingTransport();
    transport.fail({ when: ({ type }) => type === 'poison' });
    recordings.push(transport);
    return transport;
  },
  received: async (topic) =>
    received(
      recordings.flatMap(({ published }) => published),
      topic,
    ),
  poison: (topic) => ({ topic, type: 'poison' }),
  timeout: 60_000,
});
