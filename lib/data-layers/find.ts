import type { DynamicModule, ModuleMetadata } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import { show } from '../options/show.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { OutboxDataLayer } from '../outbox-data-layer.js';
import type { OutboxExtras } from '../outbox.options.js';
import type { DataLayer } from '../transaction/data-layer.js';

/** Finds TypeORM's, or throws where the application provides no DataSource. */
export type FindDataLayer = (modules: ModulesContainer) => DataLayer;

/**
 * A module in which the DataSource is found. TypeORM is loaded for it: its DataSource stands under its class in Nest's container, and an
 * application of another data layer need not have it.
 * @param token of a {@link FindDataLayer}; of `undefined` where TypeORM is not installed
 */
export async function typeOrmModule(
  token: string,
  dataSource: OutboxExtras['dataSource'],
  imports: NonNullable<ModuleMetadata['imports']>,
): Promise<DynamicModule> {
  const provider = await import('./typeorm/provider.js').then(
    ({ typeOrmProvider }) => typeOrmProvider(token, dataSource),
    (error: unknown) => {
      const { code, message } = error as { code?: unknown; message?: string };
      if (!NOT_FOUND.has(code) || !/'typeorm'/.test(message ?? '')) throw error;
      return { provide: token, useValue: undefined };
    },
  );
  return { module: OutboxDataLayerModule, imports, providers: [provider], exports: [token] };
}
class OutboxDataLayerModule {}
const NOT_FOUND: ReadonlySet<unknown> = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND']);

/** What the option says, else TypeORM's. */
export function pickDataLayer(
  given: OutboxDataLayer | undefined,
  ofTypeOrm: FindDataLayer | undefined,
  { dataSource }: OutboxExtras,
  modules: ModulesContainer,
): DataLayer {
  if (given !== undefined) {
    if (dataSource !== undefined) throw invalid('dataLayer and dataSource are both given', 'Leave one of them out.');
    if (typeof (given as Partial<DataLayer> | null)?.openDatabase === 'function') return given as DataLayer;
    throw invalid(`dataLayer is ${show(given)}`, `It must be ${LAYERS}.`);
  }
  if (ofTypeOrm !== undefined) return ofTypeOrm(modules);
  const text = 'No dataLayer is given, and TypeORM is not installed.';
  const hint = `Give one, dataLayer: ${LAYERS}; or run \`npm install typeorm\`.`;
  throw new OutboxConfigurationError('MISSING_PEER', text, { hint });
}
const LAYERS =
  'prismaLayer(prisma, pool), drizzleLayer(db), knexLayer(knex), kyselyLayer(db, { pool }), mikroOrmLayer(orm), pgLayer(pool) or mysql2Layer(pool)';

const invalid = (problem: string, hint: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', `${problem}.`, { hint });
