import { dirname } from 'node:path';
import type * as Inbox from '../../inbox/index.js';
import type { OutboxService } from '../../index.js';
import { inTime, NOT_OPEN, refuseMissing } from '../connect/open-outbox.js';
import { openModule } from '../connect/open-module.js';
import { loadPackage } from '../connect/packages.js';
import type { Reached } from '../connect/reach.js';
import type { ModuleSource, Settings } from '../connect/settings.js';
import { refuseUsage } from '../exit-code.js';
import type { Shape } from './tables.js';

/** Where the tables of an application are, and what they are made with. */
export interface DeclaredTables {
  readonly reached: Reached;
  readonly shape: Shape;
}

/**
 * The tables as the application's own module declares them. Its database is connected, and no table is looked at.
 * @param inbox its name; `undefined`: they are those of the outbox
 * @throws CliError exit code 2: it has no such outbox, or one with a store of its own
 */
export async function tablesOfModule(
  module: ModuleSource,
  { name, timeout }: Pick<Settings, 'name' | 'timeout'>,
  inbox?: string,
): Promise<DeclaredTables> {
  const { outbox, get, close } = await inTime(openModule(module, true), timeout, NOT_OPEN);
  const folder = dirname(module.file);
  const token =
    inbox === undefined
      ? outbox.getOutboxToken(name, outbox.OutboxService)
      : (await loadPackage<typeof Inbox>('nestjs-outbox/inbox', folder)).getInboxToken(inbox);
  const service = get(token) as OutboxService | undefined; // as far as it is read here, an inbox is made of the same
  if (service === undefined) return refuseMissing(inbox === undefined ? `outbox '${name}'` : `inbox '${inbox}'`);
  const { options, dataLayer } = service.runtime;
  if (options.store !== undefined)
    refuseUsage(`The outbox '${name}' has a store of its own: migrate cannot change it.`);
  const { buckets, ordering, coordination } = options;
  return {
    reached: {
      outbox,
      dataLayer,
      dialect: dataLayer.dialect,
      folder,
      place: options.database,
      writtenIn: writtenIn(dataLayer.source),
      end: close,
    },
    shape: { buckets, ordering, coordination },
  };
}

/** Only a DataSource of TypeORM has such runners. */
function writtenIn(source: object): string | undefined {
  const { createQueryRunner, options } = source as {
    createQueryRunner?: unknown;
    options?: { migrationsTableName?: string };
  };
  return createQueryRunner === undefined ? undefined : (options?.migrationsTableName ?? 'migrations');
}
