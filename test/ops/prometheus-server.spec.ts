import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { INestApplication, Type } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { OutboxEvent, OutboxModule, OutboxService } from '../../lib/index.js';
import { METRICS } from '../../lib/prometheus/catalogue.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { Applications, build, quiet, typeOrm } from '../nest/support/app.js';
import { DocumentedModules } from '../readme/modules.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { PrometheusServer } from '../support/prometheus.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeUnlessMissing, describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';

@OutboxEvent({ type: 'order.placed', topic: 'orders', key: (e) => e.orderId })
class OrderPlaced {
  constructor(readonly orderId: string) {}
}
/** As shipped, but for the time that a condition must have held. */
const RULES = readFileSync(join(process.cwd(), 'ops/prometheus-rules.yml'), 'utf8').replace(
  /\bfor: \d+[smh]$/gm,
  'for: 1s',
);
const ALERT = 'OutboxTransportDown';
/** Milliseconds. */
const NEVER = 60_000;

describeUnlessMissing(PrometheusServer.isInstalled ? [] : ['prometheus'], 'a real Prometheus', () => {
  describeWith(
    ['postgres', 'rabbitmq'],
    'that scrapes the application of docs/metrics.md with the rules of ops/',
    () => {
      jest.setTimeout(300_000);
      let database: TestDatabase;
      let observer: RabbitMqObserver;
      let queue: string;
      let broker: TcpProxy;
      let app: INestApplication;
      let prometheus: PrometheusServer;
      const applications = new Applications();

      beforeAll(async () => {
        database = await createTestDatabase('postgres');
        const url = requiredUrl('rabbitmq');
        observer = await RabbitMqObserver.connect(url);
        queue = await observer.queue();
        broker = await TcpProxy.start(url);
        const through = Object.assign(new URL(url), { host: `${broker.host}:${broker.port}` }).href;
        const options = quiet({
          transports: { events: rabbitmq({ url: through, exchange: '', routingKey: () => queue }) },
        });
        const { MetricsModule } = new DocumentedModules(require).load<{ MetricsModule: Type }>('src/metrics.module.ts');
        const compiled = await build([typeOrm(database), OutboxModule.forRoot(options), MetricsModule]).compile();
        app = compiled.createNestApplication(new ExpressAdapter(), { logger: false });
        applications.open.push(app);
        await app.listen(0, '127.0.0.1');
        const { port } = app.getHttpServer().address() as { port: number };
        prometheus = await PrometheusServer.start([`127.0.0.1:${port}`], RULES);
      });
      afterAll(async () => {
        prometheus?.stop();
        await applications.close();
        await broker?.close();
        await observer?.close();
        await database?.drop();
      });

      const enqueue = (): Promise<string> => app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('1'));
      const firing = async (): Promise<readonly string[]> =>
        (await prometheus.alerts()).filter(({ state }) => state === 'firing').map(({ name }) => name);
      const series = ({ name, type }: (typeof METRICS)[number]): string =>
        type === 'histogram' ? `${name}_count` : name;

      it('has every metric, and no rule that it cannot evaluate', async () => {
        await enqueue();
        await observer.received(queue, 1, NEVER);
        const withoutHandlers = METRICS.map(series).filter((name) => !/_handler_|_errors_|_cleaned_/.test(name));
        await until(async () => {
          const found = await prometheus.names();
          return withoutHandlers.every((name) => found.includes(name));
        }, NEVER);
        await until(async () => (await prometheus.scrapeErrors()).join() === '', NEVER); // one may have come too late
        await until(async () => (await prometheus.rules()).every(({ health }) => health !== 'unknown'), NEVER);
        const rules = await prometheus.rules();
        expect(rules.map(({ name }) => name)).toEqual([...RULES.matchAll(/- alert: (\w+)/g)].map(([, name]) => name));
        expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
      });

      it('has an alert fire when the broker is gone, and resolve when it is back', async () => {
        await until(async () => !(await firing()).includes(ALERT), NEVER);
        await broker.refuse();
        broker.cut();
        await enqueue();
        await until(async () => (await firing()).includes(ALERT), NEVER);
        const [alert] = (await prometheus.alerts()).filter(({ name }) => name === ALERT);
        expect(alert?.labels).toMatchObject({ outbox: 'default', transport: 'events', severity: 'critical' });
        await broker.accept();
        await observer.received(queue, 2, NEVER);
        await until(async () => !(await firing()).includes(ALERT), NEVER);
      });
    },
  );
});
