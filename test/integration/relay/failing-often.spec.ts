import { setTimeout as pause } from 'node:timers/promises';
import type { OutboxHealth, OutboxDispatcher, OutboxTransport } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { DATABASES, describeWith, FEWER_DATABASES, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';
import { textsOf } from '../../support/reasons.js';

const text = (value: string) => Buffer.from(value);

describe.each(DATABASES)('messages on %s that fail again and again', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    beforeEach(async () => {
      harness = await createHarness(kind, { pollInterval: 20, retry: { initial: 1, max: 20, maxAttempts: null } });
    });
    afterEach(() => harness.close());

    async function start(transport: OutboxTransport): Promise<OutboxDispatcher> {
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      return dispatcher;
    }
    const health = (dispatcher: OutboxDispatcher): Promise<OutboxHealth> => harness.health(dispatcher);

    it('D9: are told of by health, with how many and how often, until they get through', async () => {
      const transport = new ScriptedTransport();
      let isMended = false;
      transport.behave = (message) =>
        isMended || String(message.payload) === 'good'
          ? PUBLISHED
          : { ok: false, blame: 'message', error: new Error('the queue is full') };
      const dispatcher = await start(transport);
      await harness.enqueue([{ payload: text('bad') }, { payload: text('bad') }, { payload: text('good') }]);
      await transport.until(() => transport.published.length === 1);
      await until(async () =>
        textsOf(await health(dispatcher)).some((reason) =>
          /^(1 message for 'default' has failed \d+ times|2 messages for 'default' have failed 10 times or more, the most \d+ times)/.test(
            reason,
          ),
        ),
      );
      expect((await health(dispatcher)).transports['default']?.circuit).toBe('closed');
      isMended = true;
      await transport.until(() => transport.published.length === 3);
      await until(async () => (await health(dispatcher)).status === 'up');
    });

    if (!FEWER_DATABASES.includes(kind)) return; // what follows is RabbitMQ's
    describeWith('rabbitmq', 'with RabbitMQ', () => {
      it('D9: of two RabbitMQ queues behind an exchange one is full: health names the exchange, the other gets a copy per try', async () => {
        const observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
        try {
          const exchange = await observer.exchange('fanout');
          const full = await observer.queue({ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } });
          const healthy = await observer.queue();
          observer.channel.sendToQueue(full, text('full'));
          await until(async () => (await observer.depth(full)) === 1);
          for (const queue of [full, healthy]) await observer.channel.bindQueue(queue, exchange, '');
          const dispatcher = await start(await rabbitmq({ url: requiredUrl('rabbitmq'), exchange }).create());
          const count = 30;
          await harness.enqueue(Array.from({ length: count }, (_, n) => ({ key: `k${n}`, payload: text('refused') })));
          await until(async () =>
            textsOf(await health(dispatcher)).some((reason) =>
              reason.includes(`exchange "${exchange}", routing key "orders" takes nothing`),
            ),
          );
          await until(async () => (await observer.depth(healthy)) >= 2);
          expect((await health(dispatcher)).transports['default']?.stats?.mostAttempts ?? 0).toBe(0);
          // Each message was refused before anybody knew; then one at a time is tried, after pauses that grow. The policy says 20 ms.
          await pause(5_000);
          expect(await observer.depth(healthy)).toBeLessThan(2 * count);
          await observer.consume(full); // purged once, it would be full again after one message
          await until(async () => (await health(dispatcher)).status === 'up');
          await dispatcher.stop();
        } finally {
          await observer.close();
        }
      });
    });
  });
});
