// @tier gate
import { spawnSync } from 'node:child_process';
import { Controller, Get, Header, Module, type INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Registry } from 'prom-client';
import { OutboxDispatcher, OutboxEvent, OutboxModule, OutboxService } from '../../lib/index.js';
import { OutboxPrometheus } from '../../lib/prometheus/index.js';
import { OutboxHealthIndicator } from '../../lib/terminus/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeUnlessMissing, describeWith, requiredUrl } from '../support/services.js';
import { Applications, build, quiet, typeOrm, until } from './support/app.js';

@OutboxEvent({ type: 'metrics.sent', topic: 'sent', key: () => null, transport: 'events' })
class Sent {}
const registry = new Registry();
const isInstalled = spawnSync('promtool', ['--version']).error === undefined;

@Controller()
class Probes {
  constructor(
    private readonly health: HealthCheckService,
    private readonly outbox: OutboxHealthIndicator,
  ) {}

  @Get('metrics')
  @Header('content-type', 'text/plain; version=0.0.4')
  metrics(): Promise<string> {
    return registry.metrics();
  }
  @Get('live')
  @HealthCheck()
  live() {
    return this.health.check([() => this.outbox.isAlive('outbox')]);
  }
  @Get('ready')
  @HealthCheck()
  ready() {
    return this.health.check([() => this.outbox.isReady('outbox')]);
  }
  @Get('health')
  @HealthCheck()
  look() {
    return this.health.check([() => this.outbox.isHealthy('outbox')]);
  }
}

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [Probes],
  providers: [OutboxHealthIndicator],
})
class ProbesModule {}

describeWith(['postgres', 'rabbitmq'], 'an application that is scraped and probed', () => {
  let database: TestDatabase;
  let observer: RabbitMqObserver;
  let queue: string;
  let app: INestApplication;
  let port: number;
  let outbox: OutboxService;
  const applications = new Applications();
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    queue = await observer.queue();
    const transports = {
      events: rabbitmq({ url: requiredUrl('rabbitmq'), exchange: '', routingKey: () => queue }),
    };
    const options = quiet({ transports, retry: { maxAttempts: 3, initial: 10, max: 1_000 } });
    const metrics = {
      provide: OutboxPrometheus,
      inject: [OutboxService],
      useFactory: (service: OutboxService) => new OutboxPrometheus(service, { registry, countEvery: '1s' }),
    };
    const compiled = await build([typeOrm(database), OutboxModule.forRoot(options), ProbesModule], [metrics]).compile();
    app = compiled.createNestApplication(new ExpressAdapter(), { logger: false });
    applications.open.push(app);
    await app.listen(0, '127.0.0.1');
    port = (app.getHttpServer().address() as { port: number }).port;
    outbox = app.get(OutboxService);
  });
  afterAll(async () => {
    await applications.close();
    await observer?.close();
    await database?.drop();
    expect(registry.getMetricsAsArray()).toEqual([]);
  });

  const ask = async (path: string) => fetch(`http://127.0.0.1:${port}/${path}`);
  const scrape = async (): Promise<string> => (await ask('metrics')).text();
  const value = (text: string, line: string): number | undefined => {
    const found = text.split('\n').find((one) => one.startsWith(`outbox_${line} `));
    return found === undefined ? undefined : Number(found.split(' ').at(-1));
  };
  /** Once the line has the value: counts are asked once a second. */
  const shows = (line: string, wanted: number): Promise<unknown> =>
    until(async () => value(await scrape(), line) === wanted);

  it('shows what was published, how long it took, and how it was batched', async () => {
    const before = await scrape();
    expect(value(before, 'messages_published_total{outbox="default",transport="events"}')).toBe(0);
    await outbox.enqueueOutsideTransaction([new Sent(), new Sent(), new Sent()]);
    await observer.received(queue, 3); // the next one is in a publish of its own
    await outbox.enqueueOutsideTransaction(new Sent(), { delay: 1_500 });
    await observer.received(queue, 4);
    await shows('messages_published_total{outbox="default",transport="events"}', 4);
    const text = await scrape();
    const of = (name: string) => value(text, `${name}{outbox="default",transport="events"}`);
    expect(value(text, 'messages_enqueued_total{outbox="default"}')).toBe(4);
    expect(of('commit_to_publish_seconds_count')).toBe(3); // the scheduled one is left out
    expect(of('commit_to_publish_seconds_sum')).toBeGreaterThan(0);
    expect(of('published_batch_messages_sum')).toBe(4);
    const publishes = (part: string, result: string) =>
      value(text, `publish_seconds_${part}{outbox="default",transport="events",result="${result}"}`);
    expect(publishes('count', 'ok')).toBeGreaterThan(1);
    expect(publishes('sum', 'ok')).toBeGreaterThan(0);
    expect(publishes('count', 'failed')).toBe(0);
    expect(of('bucket_leases_acquired_total')).toBe(32);
    const bytes = async () => value(await scrape(), 'table_bytes{outbox="default",table="ready"}') ?? 0;
    await until(async () => (await bytes()) > 8_192, 120_000); // asked for every minute
    await shows('leased_buckets{outbox="default",transport="events"}', 32);
    expect(value(text, 'circuit_state{outbox="default",transport="events",state="closed"}')).toBe(1);
    await shows('health_status{outbox="default",status="up"}', 1);
    expect(value(text, 'relay_running{outbox="default"}')).toBe(1);
  });

  describeUnlessMissing(isInstalled ? [] : ['promtool'], 'promtool', () => {
    it('complains of nothing in a scrape', async () => {
      const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
        input: await scrape(),
        encoding: 'utf8',
      });
      expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' });
    });
  });

  it('answers probes, and stays alive and ready while its relay is stopped on purpose', async () => {
    for (const path of ['live', 'ready', 'health']) expect([path, (await ask(path)).status]).toEqual([path, 200]);
    await app.get(OutboxDispatcher).stop();
    expect([(await ask('live')).status, (await ask('ready')).status]).toEqual([200, 200]);
    let answer!: [number, unknown];
    await until(async () => {
      const response = await ask('health');
      answer = [response.status, await response.json()];
      return !/has not counted|no_relay/.test(JSON.stringify(answer)); // counts may be of the second before
    });
    expect(answer).toEqual([
      503,
      expect.objectContaining({
        status: 'error',
        error: {
          outbox: {
            status: 'down',
            outbox: 'down',
            reasons: [{ code: 'relay_stopped', text: 'The relay is not running.' }],
            circuits: { events: 'idle' },
          },
        },
      }),
    ]);
    expect(value(await scrape(), 'relay_running{outbox="default"}')).toBe(0);
  });
});
