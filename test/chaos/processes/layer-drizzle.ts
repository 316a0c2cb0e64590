import { sql } from 'drizzle-orm';
import { drizzle as drizzleMysql } from 'drizzle-orm/mysql2';
import { drizzle } from 'drizzle-orm/node-postgres';
import { createPool } from 'mysql2/promise';
import { Pool } from 'pg';
import { drizzleLayer } from '../../../lib/data-layers/drizzle/index.js';
import type { ProcessSettings } from '../settings.js';
import type { ChaosLayer } from './layer.js';

export function open({ store, databaseUrl }: ProcessSettings, max: number): ChaosLayer {
  return store === 'postgres' ? onPostgres(databaseUrl, max) : onMysql(databaseUrl, max);
}

function onPostgres(connectionString: string, max: number): ChaosLayer {
  const pool = new Pool({ connectionString, max, connectionTimeoutMillis: 3_000 });
  pool.on('error', () => undefined);
  const db = drizzle(pool);
  return {
    imports: [],
    dataLayer: drizzleLayer(db),
    use: () => ({
      transaction: (work) => db.transaction(work as never),
      query: async (statement, tx) =>
        ((tx as unknown as typeof db | undefined) ?? db).execute(sql.raw(statement)).then(({ rows }) => rows),
    }),
  };
}

function onMysql(uri: string, connectionLimit: number): ChaosLayer {
  const db = drizzleMysql(createPool({ uri, connectionLimit, timezone: 'Z', connectTimeout: 3_000 }));
  return {
    imports: [],
    dataLayer: drizzleLayer(db),
    use: () => ({
      transaction: (work) => db.transaction(work as never),
      query: async (statement, tx) => {
        const [rows] = await ((tx as unknown as typeof db | undefined) ?? db).execute(sql.raw(statement));
        return rows as unknown as Record<string, unknown>[];
      },
    }),
  };
}
