import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { settings } from './shop/settings.js';
import { ApiModule } from './shop/api.module.js';

/** Takes orders; publishes nothing. */
const app = await NestFactory.create(ApiModule, { logger: ['error', 'warn'], forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(settings().port, '127.0.0.1');
process.send?.({ ready: await app.getUrl() });
process.once('disconnect', () => void app.close());
