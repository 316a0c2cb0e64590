import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientKafka, ClientRMQ } from '@nestjs/microservices';
import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  Kafka,
  logLevel,
  ResourcePatternTypes,
} from 'kafkajs';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import type { OutboxTransport, PublishResult } from '../../../lib/transports/transport.js';
import { TestTopics } from '../../support/kafka.js';
import { KafkaNode } from '../../support/kafka-node.js';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

beforeAll(() => Logger.overrideLogger(false));

const USER = 'clerk';
const verdict = (result: PublishResult | undefined): unknown =>
  result?.ok === false ? [result.blame, result.suspect, result.destination] : 'ok';
async function publish(transport: OutboxTransport, ...topics: readonly string[]): Promise<readonly PublishResult[]> {
  const batch = topics.map((topic) => contractMessage({ topic, key: topic, payload: '{}' }));
  return (await probePublish(transport, batch, { timeout: 60_000 })).results;
}

describeUnlessMissing(RabbitMqNode.isInstalled ? [] : ['rabbitmq'], 'ClientRMQ whose user loses a right', () => {
  let node: RabbitMqNode;
  let observer: RabbitMqObserver;
  let transport: OutboxTransport | undefined;
  beforeAll(async () => {
    node = await RabbitMqNode.start();
    observer = await RabbitMqObserver.connect(node.url);
    await node.ctl('add_user', USER, USER);
  });
  afterAll(async () => {
    await transport?.close?.();
    await observer?.connection.close();
    await node?.remove();
  });

  it('X1: its exchange is away (403), nobody is charged, and it goes on with the right', async () => {
    const rights = (write: string): Promise<void> => node.ctl('set_permissions', USER, '.*', write, '.*');
    const [exchange, queue] = [await observer.exchange(), await observer.queue()];
    await observer.channel.bindQueue(queue, exchange, '#');
    await rights('.*');
    const urls = [node.url.replace('guest:guest', `${USER}:${USER}`)];
    transport = await clientProxy({ client: new ClientRMQ({ urls, exchange, wildcards: true }) }).create();
    expect((await publish(transport, 'a')).map(verdict)).toEqual(['ok']);
    await rights('^amq\\.default$');
    await transport.reset!(); // RabbitMQ remembers that it may, until the channel is closed
    const [refused] = await publish(transport, 'a');
    expect(verdict(refused)).toEqual(['transport', 'destination', `exchange "${exchange}", routing key "a"`]);
    expect(String(refused?.ok === false && refused.error)).toContain('403');
    await rights('.*');
    expect((await publish(transport, 'a')).map(verdict)).toEqual(['ok']);
  });
});

describeUnlessMissing(KafkaNode.isInstalled ? [] : ['kafka'], 'ClientKafka whose user loses a right', () => {
  let node: KafkaNode;
  const topics = new TestTopics(() => node.config());
  let transport: OutboxTransport | undefined;
  beforeAll(async () => {
    node = await KafkaNode.start({ [USER]: USER });
    await topics.start();
  });
  afterAll(async () => {
    await transport?.close?.();
    await topics.stop();
    await node?.stop();
  });

  it('C10, X1, N8: its topic is away, by name, nobody is charged, and the other topic goes on', async () => {
    const [good, bad] = [await topics.create(), await topics.create()];
    const admin = new Kafka(node.config()).admin();
    await admin.connect();
    const allow = (topic: string) => node.allow(admin, USER, [['WRITE', 'TOPIC', topic]]);
    /** The broker hears of a right some time after the controller took it. */
    const hears = (on: OutboxTransport, isRight: boolean): Promise<void> =>
      until(async () => (await publish(on, good, bad)).every(({ ok }, n) => ok === (isRight || n === 0)), 60_000);
    await Promise.all([allow(good), allow(bad)]);
    const client = {
      ...{ brokers: [node.saslUrl], logLevel: logLevel.NOTHING },
      sasl: { mechanism: 'plain' as const, username: USER, password: USER },
    };
    transport = await clientProxy({ client: new ClientKafka({ client }) }).create();
    await hears(transport, true);
    expect((await publish(transport, good, bad)).map(verdict)).toEqual(['ok', 'ok']);
    await admin.deleteAcls({
      filters: [
        {
          ...{ resourceType: AclResourceTypes.TOPIC, resourceName: bad },
          resourcePatternType: ResourcePatternTypes.LITERAL,
          ...{ principal: `User:${USER}`, host: '*' },
          ...{ operation: AclOperationTypes.WRITE, permissionType: AclPermissionTypes.ALLOW },
        },
      ],
    });
    await hears(transport, false);
    const results = await publish(transport, good, bad);
    expect(results.map(verdict)).toEqual(['ok', ['transport', 'destination', `topic "${bad}"`]]);
    expect(String(results[1]?.ok === false && results[1].error)).toContain(`'${bad}'`);
    await allow(bad);
    await hears(transport, true);
    expect((await publish(transport, good, bad)).map(verdict)).toEqual(['ok', 'ok']);
    await admin.disconnect();
  });
});
