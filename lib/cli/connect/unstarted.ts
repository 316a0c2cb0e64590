import type { INestApplicationContext } from '@nestjs/common';
import { ENQUEUE_ONLY, TABLES_APART, UNCHECKED } from '../../nest/enqueue-only.js';
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
 * @param how.checked false: an outbox of it opens whatever its tables are
 * @param how.tablesApart its outboxes look at no tables
 * @param how.mayRelay one of its outboxes may publish, when it is told to
 */
export async function createUnstarted(
  module: unknown,
  folder: string,
  {
    tablesApart = false,
    mayRelay = false,
    checked = true,
  }: { tablesApart?: boolean; mayRelay?: boolean; checked?: boolean } = {},
): Promise<INestApplicationContext> {
  const { NestFactory } = await loadPackage<Core>('@nestjs/core', folder);
  Object.defineProperty(globalThis, ENQUEUE_ONLY, {
    value: mayRelay ? false : checked ? true : UNCHECKED,
    configurable: true,
  });
  Object.defineProperty(globalThis, TABLES_APART, { value: tablesApart, configurable: true });
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
