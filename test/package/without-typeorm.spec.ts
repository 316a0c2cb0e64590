import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { describeWith } from '../support/services.js';
import { Consumer } from './consumer.js';

describeWith('postgres', 'an application with Drizzle, and no TypeORM', () => {
  jest.setTimeout(600_000);
  let consumer: Consumer;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    consumer = await Consumer.create({
      type: 'module',
      sources: 'drizzle',
      dependencies: {
        '@nestjs/common': '^12.0.0',
        '@nestjs/core': '^12.0.0',
        '@types/node': '^22.0.0',
        '@types/pg': '^8.0.0',
        'drizzle-orm': '^0.45.0',
        pg: '^8.0.0',
        'reflect-metadata': '^0.2.0',
        rxjs: '^7.8.0',
      },
      compilerOptions: { module: 'NodeNext', moduleResolution: 'NodeNext' },
    });
  }, 900_000);
  afterAll(async () => {
    await consumer?.remove();
    await database?.drop();
  });

  it('compiles, with the types of its own transactions, and publishes what it enqueues', async () => {
    expect(await consumer.installed()).not.toContain('typeorm');
    expect(await consumer.compile()).toEqual({ code: 0, stdout: '', stderr: '' });
    const outcome = await consumer.node(['out/main.js'], { DATABASE_URL: database.url });
    expect(outcome).toMatchObject({ code: 0, stderr: '', stdout: '["order.placed","order.cancelled"]\n' });
  });
});
