import { randomBytes } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { ClientKafka } from '@nestjs/microservices';
import { logLevel } from 'kafkajs';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { assertAllOk } from '../../../lib/testing/transport-contract/run.js';
import { TestTopics } from '../../support/kafka.js';
import { describeWith, requiredUrl } from '../../support/services.js';

beforeAll(() => Logger.overrideLogger(false));

/** Milliseconds that a group waits for a member that was cut off, and less: longer than anything else takes. */
const [GROUP_WAITS, SOON] = [600_000, 60_000];

describeWith('kafka', 'clientProxy() and the consumer of replies of a ClientKafka', () => {
  const topics = new TestTopics();
  const clients: ClientKafka[] = [];
  beforeAll(() => topics.start());
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  afterAll(() => topics.stop());

  function newClient(): ClientKafka & { readonly _consumer?: unknown } {
    const client = new ClientKafka({
      client: { clientId: 'replies', brokers: requiredUrl('kafka').split(','), logLevel: logLevel.NOTHING },
      consumer: {
        groupId: `replies-${randomBytes(6).toString('hex')}`,
        sessionTimeout: GROUP_WAITS,
        rebalanceTimeout: GROUP_WAITS,
      },
    });
    clients.push(client);
    return client as never;
  }

  it('N6: after a cut connection the next publish waits for no group', async () => {
    const topic = await topics.create();
    const transport = await clientProxy({ client: newClient() }).create();
    for (let life = 0; life < 3; life += 1) {
      assertAllOk(await probePublish(transport, [contractMessage({ topic })], { timeout: SOON }));
      await transport.reset?.();
    }
    await transport.close?.();
    expect(await topics.total(topic)).toBe(3);
  });

  it('N6: an application that waits for replies keeps the consumer', async () => {
    const topic = await topics.create();
    const client = newClient();
    client.subscribeToResponseOf(topic);
    await topics.admin.createTopics({ waitForLeaders: true, topics: [{ topic: `${topic}.reply` }] });
    const transport = await clientProxy({ client }).create();
    assertAllOk(await probePublish(transport, [contractMessage({ topic })], { timeout: SOON }));
    expect(client._consumer).toBeTruthy();
    await transport.close?.();
    await topics.admin.deleteTopics({ topics: [`${topic}.reply`] });
  });
});
