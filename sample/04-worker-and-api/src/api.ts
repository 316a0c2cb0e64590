import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { ApiModule } from './api.module.js';

/** Enqueues, and never publishes. */
const app = await NestFactory.create(ApiModule, { logger: ['error', 'warn'], forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
process.send?.({ ready: await app.getUrl() });
process.once('disconnect', () => void app.close());
