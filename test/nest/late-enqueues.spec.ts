import type { AddressInfo } from 'node:net';
import { Controller, Inject, Module, Post, type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { OutboxModule, OutboxService } from '../../lib/index.js';
import { overridesToken } from '../../lib/outbox.tokens.js';
import { systemClock, type Clock } from '../../lib/time/clock.js';
import { BusyClient, httpAdapter, type HttpServer } from '../support/http.js';
import { describeWith } from '../support/services.js';
import { OrderPlaced, quiet, typeOrm, until, useApplications } from './support/app.js';

const CONNECTIONS = 8;
/** The second in which requests in hand may still enqueue lasts a minute. */
const patient: Clock = { ...systemClock, monotonic: () => performance.now() / 60 };

@Controller('orders')
class Orders {
  constructor(@Inject(OutboxService) readonly outbox: OutboxService) {}

  @Post() async place(): Promise<void> {
    await this.outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
  }
}

describeWith('postgres', 'L12: an application that is closed while a busy client keeps its connections', () => {
  const used = useApplications();

  const start = async (server: HttpServer, forceCloseConnections: boolean, clock = systemClock) => {
    @Module({ imports: [typeOrm(used.database), OutboxModule.forRoot(quiet())], controllers: [Orders] })
    class Shop {}
    const options = { logger: false, forceCloseConnections } as const;
    const builder = Test.createTestingModule({ imports: [Shop] }).overrideProvider(overridesToken('default'));
    const compiled = await builder.useValue({ clock }).compile();
    const app: INestApplication = compiled.createNestApplication(httpAdapter(server), options);
    await app.listen(0, '127.0.0.1');
    const warnings: string[] = [];
    const outbox = app.get(OutboxService);
    outbox.events.on('warning', ({ text }) => warnings.push(text));
    const client = new BusyClient((app.getHttpServer().address() as AddressInfo).port, '/orders', CONNECTIONS);
    await until(() => client.accepted > CONNECTIONS);
    return { app, client, warnings };
  };

  it('says how many messages were enqueued since the relay stopped, and not for each', async () => {
    const { app, client, warnings } = await start('express', false);
    const closed = app.close();
    const at = performance.now();
    await until(() => warnings.length > 0);
    const { accepted } = client;
    await until(() => client.accepted > accepted + 10);
    await client.stop();
    await closed;
    expect(warnings.length).toBeLessThanOrEqual(1 + (performance.now() - at) / 10_000);
    expect(warnings[0]).toMatch(
      /^[1-9]\d* (messages were|message was) enqueued since the relay stopped; .*forceCloseConnections: true/,
    );
  });

  it.each([
    ['express', true],
    ['fastify', false],
    ['fastify', true],
  ] as const)('ends at once, and has nothing to say: %s, forceCloseConnections: %s', async (server, forced) => {
    const { app, client, warnings } = await start(server, forced, patient);
    await app.close();
    await client.stop();
    expect(warnings).toEqual([]);
  });
});
