import { join } from 'node:path';
import { describeConsumer } from './describe-consumer.js';

const MODULES = join(__dirname, '..', '..', 'node_modules');

describeConsumer(
  'a Nest 11 CommonJS application on TypeORM 0.3',
  {
    type: 'commonjs',
    dependencies: {
      '@nestjs/common': '^11.0.0',
      '@nestjs/core': '^11.0.0',
      '@nestjs/terminus': '^11.0.0',
      '@nestjs/typeorm': '^11.0.0',
      '@types/node': '^22.0.0',
      pg: '^8.0.0',
      'reflect-metadata': '^0.2.0',
      rxjs: '^7.8.0',
      typeorm: '^0.3.20',
    },
    // The oldest resolution that people still have: it knows no `exports`, only `typesVersions`.
    compilerOptions: { module: 'CommonJS', moduleResolution: 'node10', ignoreDeprecations: '6.0' },
  },
  (consumer) => {
    it("loads in Jest's CommonJS mode without a transform", async () => {
      const config = {
        rootDir: consumer().folder,
        testMatch: ['**/src/*.test.cjs'],
        transform: {},
        testEnvironment: join(MODULES, 'jest-environment-node'),
      };
      const jest = join(MODULES, 'jest', 'bin', 'jest.js');
      const outcome = await consumer().node([jest, '--config', JSON.stringify(config), '--no-watchman']);
      expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining('1 passed') });
    });
  },
);
