import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { ShopModule } from './shop.module.js';

/** Takes orders, and publishes what it committed. It knows nothing of its consumers. */
async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(ShopModule, { logger: ['error', 'warn'], forceCloseConnections: true });
  app.enableShutdownHooks();
  await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
  process.send?.({ ready: await app.getUrl() });
  process.once('disconnect', () => void app.close());
}

void bootstrap();
