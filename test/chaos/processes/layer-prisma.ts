import { PrismaPg } from '@prisma/adapter-pg';
import { Pool } from 'pg';
import { prismaLayer } from '../../../lib/data-layers/prisma/index.js';
import { PrismaClient, type Transaction } from '../../support/prisma/client.js';
import type { ProcessSettings } from '../settings.js';
import type { ChaosLayer } from './layer.js';

/** Longer than any fault of the database: what ends a transaction is the fault. */
const PATIENT = { maxWait: 60_000, timeout: 60_000 };

export function open({ databaseUrl }: ProcessSettings, max: number): ChaosLayer {
  const pool = new Pool({ connectionString: databaseUrl, max, connectionTimeoutMillis: 3_000 });
  pool.on('error', () => undefined);
  const client = new PrismaClient({ adapter: new PrismaPg(pool) });
  return {
    imports: [],
    dataLayer: prismaLayer(client, pool),
    use: () => ({
      transaction: (work) => client.$transaction(work as never, PATIENT),
      query: (statement, tx) =>
        ((tx as unknown as Transaction | undefined) ?? (client as Transaction)).$queryRawUnsafe(statement) as Promise<
          never[]
        >,
    }),
  };
}
