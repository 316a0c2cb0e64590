import { once } from 'node:events';
import { Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Controller, Inject, Module, Post, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

const CONNECTIONS = 8;

@Controller('orders')
class Orders {
  constructor(@Inject(OutboxService) readonly outbox: OutboxService) {}

  @Post() async place(): Promise<void> {
    await this.outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
  }
}

/** Sends one request after the other on each connection, until it is closed. */
class BusyClient {
  readonly agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  readonly work: Promise<unknown>;
  accepted = 0;
  on = true;

  constructor(readonly port: number) {
    this.work = Promise.all(Array.from({ length: CONNECTIONS }, () => this.send()));
  }

  async send(): Promise<void> {
    try {
      while (this.on) {
        const sent = request({
          port: this.port,
          host: '127.0.0.1',
          path: '/orders',
          method: 'POST',
          agent: this.agent,
        });
        sent.end();
        const [answer] = await once(sent, 'response');
        answer.resume();
        await once(answer, 'end');
        if (answer.statusCode === 201) this.accepted += 1;
      }
    } catch {
      // The server closed the connection.
    }
  }

  async stop(): Promise<void> {
    this.on = false;
    await this.work;
    this.agent.destroy();
  }
}

describeWith('postgres', 'L12: an application that is closed while a busy client keeps its connections', () => {
  const used = useApplications();

  const start = async (forceCloseConnections: boolean) => {
    @Module({ imports: [typeOrm(used.database), OutboxModule.forRoot(quiet())], controllers: [Orders] })
    class Shop {}
    const app: INestApplication = await NestFactory.create(Shop, { logger: false, forceCloseConnections });
    await app.listen(0, '127.0.0.1');
    const warnings: string[] = [];
    const outbox = app.get(OutboxService);
    outbox.events.on('warning', ({ text }) => warnings.push(text));
    const client = new BusyClient((app.getHttpServer().address() as AddressInfo).port);
    await until(() => client.accepted > CONNECTIONS);
    return { app, client, warnings };
  };

  it('says how many messages were enqueued since the relay stopped, and not for each', async () => {
    const { app, client, warnings } = await start(false);
    const closed = app.close();
    const at = performance.now();
    await until(() => warnings.length > 0, 15_000);
    const { accepted } = client;
    await until(() => client.accepted > accepted + 10, 15_000);
    await client.stop();
    await closed;
    expect(warnings.length).toBeLessThanOrEqual(1 + (performance.now() - at) / 10_000);
    expect(warnings[0]).toMatch(
      /^[1-9]\d* (messages were|message was) enqueued since the relay stopped; .*forceCloseConnections: true/,
    );
  });

  it('ends at once with forceCloseConnections, and has nothing to say', async () => {
    const { app, client, warnings } = await start(true);
    await app.close();
    await client.stop();
    expect(warnings).toEqual([]);
  });
});
