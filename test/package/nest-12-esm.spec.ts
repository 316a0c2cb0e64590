import { describeConsumer } from './describe-consumer.js';

describeConsumer('a Nest 12 ES module application on TypeORM 1', {
  type: 'module',
  dependencies: {
    '@nestjs/common': '^12.0.0',
    '@nestjs/core': '^12.0.0',
    '@nestjs/terminus': '^12.0.0',
    '@nestjs/typeorm': '^12.0.0',
    '@types/node': '^22.0.0',
    pg: '^8.0.0',
    'reflect-metadata': '^0.2.0',
    rxjs: '^7.8.0',
    typeorm: '^1.0.0',
  },
  compilerOptions: { module: 'NodeNext', moduleResolution: 'NodeNext' },
});
