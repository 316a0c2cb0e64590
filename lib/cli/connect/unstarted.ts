import type { INestApplicationContext } from '@nestjs/common';
import { ENQUEUE_ONLY } from '../../nest/enqueue-only.js';
import { loadPackage } from './packages.js';

/** What we use of `@nestjs/core`. */
interface Core {
  readonly NestFactory: {
    create(module: unknown, adapter: object, options: object): Promise<INestApplicationContext>;
  };
}

/** No server: nothing is listened to, as nothing is started. */
const NO_SERVER = {
  patch() {},
  initHttpServer() {},
  getHttpServer() {},
  getInstance() {},
  getType: () => 'none',
  close() {},
};

/**
 * An application whose providers are there and whose hooks are not called: no relay, no consumer, no cron job and no server of it
 * runs beside the command.
 * @param folder absolute: whose Nest it is
 */
export async function createUnstarted(module: unknown, folder: string): Promise<INestApplicationContext> {
  const { NestFactory } = await loadPackage<Core>('@nestjs/core', folder);
  Object.defineProperty(globalThis, ENQUEUE_ONLY, { value: true, configurable: true });
  return NestFactory.create(module, NO_SERVER, { logger: false, abortOnError: false });
}

/** @returns the provider of this token, wherever it is; `undefined`: there is none */
export function findIn(app: INestApplicationContext, token: unknown): unknown {
  try {
    return app.get(token as string, { strict: false });
  } catch {
    return undefined;
  }
}
