import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientRMQ } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { OutboxTransport, PublishFailure, PublishResult } from '../../../lib/transports/transport.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { AmqpRefusals } from '../../support/amqp-refusals.js';
import { QueueReader } from '../../support/queue-reader.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { type Interceptor, TcpProxy } from '../../support/tcp-proxy.js';

beforeAll(() => Logger.overrideLogger(false));

describeWith('rabbitmq', 'clientProxy() over ClientRMQ and a connection that ends under a message', () => {
  it.each<[how: string, code: number | 'reset', suspect: 'message' | undefined]>([
    ['is reset', 'reset', 'message'],
    ['is closed over what cannot be read', 501, 'message'],
    ['is closed over what crashed in the broker', 541, 'message'],
    ['is closed by an operator', 320, undefined],
  ])('C3: the connection %s with one message alone on it: whether that is a suspect', async (_, code, suspect) => {
    const reader = await new QueueReader().start(false);
    const link = await TcpProxy.start(requiredUrl('rabbitmq'));
    const refusals = new AmqpRefusals(reader.queue);
    const resetting: Interceptor = {
      up: (bytes) => {
        if (bytes.includes('"bad"')) link.cut();
        return bytes;
      },
      down: (bytes) => bytes,
    };
    link.intercept = () => (code === 'reset' ? resetting : refusals.connection());
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${link.host}:${link.port}`;
    const client = new ClientRMQ({
      urls: [url.href],
      queue: reader.queue,
      queueOptions: { durable: true },
      socketOptions: { reconnectTimeInSeconds: 1 },
    });
    const transport: OutboxTransport = await clientProxy({ client }).create();
    const publishOne = async (payload: string): Promise<PublishResult | undefined> => {
      const { results } = await probePublish(transport, [contractMessage({ topic: 't', payload })], {
        timeout: 60_000,
      });
      return results[0];
    };
    expect(await publishOne('"good"')).toEqual({ ok: true });
    if (code !== 'reset') refusals.refusal = { closes: 'connection', code };
    const isBack = new Promise<void>((resolve) => {
      transport.onState = (state) => (state === 'up' ? resolve() : undefined);
    });
    const failed = await publishOne('"bad"');
    expect(failed).toMatchObject({ ok: false, blame: 'transport' });
    expect((failed as PublishFailure).suspect).toBe(suspect);
    expect((failed as PublishFailure).error).toMatchObject({ code: code === 'reset' ? 'ECONNRESET' : code });
    refusals.refusal = undefined;
    await isBack;
    expect(await publishOne('"good"')).toEqual({ ok: true });
    await transport.close?.();
    await link.close();
    await reader.stop();
  });
});
