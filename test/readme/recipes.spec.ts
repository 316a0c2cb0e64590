import { ConfigService } from '@nestjs/config';
import { register } from 'prom-client';
import type { OutboxOptions } from '../../lib/index.js';
import { OutboxPrometheus } from '../../lib/prometheus/index.js';
import { FakeOutbox } from '../unit/prometheus/fake-outbox.js';
import { blocksIn, documents } from './documents.js';
import { DocumentedModules } from './modules.js';

const PAGE = 'docs/recipes.md';

/** What the recipes do without a server; `readme.spec.ts` compiles all of them. */
describe('the recipes', () => {
  const tests: { name: string; body: () => Promise<void> }[] = [];
  const modules = new DocumentedModules(require, (name, body) => tests.push({ name, body }));

  it('are one page of at most 30 kB, each of them in its table', () => {
    const { text } = documents().find(({ path }) => path === PAGE) ?? { text: '' };
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(30_000);
    const recipes = [...text.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    expect(recipes.length).toBeGreaterThanOrEqual(9);
    expect([...text.matchAll(/^\| .* \| \[(.*)\]\(#.*\) \|$/gm)].map(([, title]) => title)).toEqual(recipes);
  });

  it('make options of the settings of ConfigService, and name one that is missing', () => {
    type Factory = new (config: ConfigService) => { createOutboxOptions(): OutboxOptions };
    const { OutboxConfigService } = modules.load<{ OutboxConfigService: Factory }>('src/outbox-config.service.ts');
    const of = (settings: Record<string, string>) =>
      new OutboxConfigService(new ConfigService(settings)).createOutboxOptions();
    const given = of({ RABBITMQ_URL: 'amqp://broker.example', ROLE: 'api' });
    expect(given).toMatchObject({ relay: false, transports: { default: { kind: 'rabbitmq' } } });
    expect(of({ RABBITMQ_URL: 'amqp://broker.example' }).relay).toBe(true);
    expect(() => of({})).toThrow(/RABBITMQ_URL/);
  });

  it('know the roles of a process, and refuse another word', () => {
    const { roleOf } = modules.load<{ roleOf: (text?: string) => string }>('src/role.ts');
    expect([roleOf(), roleOf('api'), roleOf('relay')]).toEqual(['both', 'api', 'relay']);
    expect(() => roleOf('worker')).toThrow('ROLE must be one of both, api, relay');
  });

  it('show the outbox in the registry of the application', async () => {
    type Provider = { provide: unknown; useFactory: (outbox: object) => OutboxPrometheus };
    const { MetricsModule } = modules.load<{ MetricsModule: object }>('src/metrics.module.ts');
    const [provider] = Reflect.getMetadata('providers', MetricsModule) as [Provider];
    expect(provider.provide).toBe(OutboxPrometheus);
    const outbox = new FakeOutbox();
    const metrics = provider.useFactory(outbox);
    expect(await register.metrics()).toContain('outbox_messages{outbox="default",transport="events",state="dead"} 4');
    metrics.close();
    expect(register.getMetricsAsArray()).toEqual([]);
  });

  it('have a test without a database, which passes', async () => {
    modules.load('src/orders/orders.service.unit.spec.ts');
    expect(tests).toHaveLength(1);
    for (const { body } of tests) await body();
  });

  it('take the suffix off where it is one of a relative path', () => {
    const [block] = blocksIn('json').filter(({ place }) => place.startsWith(PAGE));
    const { moduleNameMapper } = JSON.parse(block?.text ?? '{}') as { moduleNameMapper: Record<string, string> };
    const [[pattern, target] = ['', '']] = Object.entries(moduleNameMapper);
    const mapped = (path: string): string => path.replace(new RegExp(pattern), target);
    expect(mapped('./order.entity.js')).toBe('./order.entity');
    expect(mapped('../app.module.js')).toBe('../app.module');
    expect(mapped('nestjs-outbox/dist/index.js')).toBe('nestjs-outbox/dist/index.js');
  });
});
