import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { RelayModule } from './shop/relay.module.js';

/** Publishes what the API committed; takes no orders. */
const app = await NestFactory.createApplicationContext(RelayModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
process.send?.({ ready: 'relay' });
process.once('disconnect', () => void app.close());
