import { PrismaMariaDb } from '@prisma/adapter-mariadb';
import { PrismaPg } from '@prisma/adapter-pg';
import { createPool } from 'mariadb';
import { Pool } from 'pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { dataLayerHarness, unshaken } from '../support/data-layer.js';
import { describeDataLayer } from '../support/data-layer-relay.js';
import { MysqlPrismaClient, PrismaClient, type Client, type Transaction } from '../support/prisma/client.js';
import { describeWith } from '../support/services.js';

/** Milliseconds: 200 transactions share five connections, on a machine that may be busy. */
const PATIENCE = { maxWait: 300_000, timeout: 300_000 };

function openPostgres(connectionString: string, max: number) {
  const pool = unshaken(new Pool({ connectionString, max }));
  return opened(new PrismaClient({ adapter: new PrismaPg(pool), transactionOptions: PATIENCE }), pool);
}
function openMysql(url: string, connectionLimit: number) {
  const { hostname: host, port, username: user, password, pathname } = new URL(url);
  const given = { host, port: Number(port), user, password, database: pathname.slice(1), connectionLimit };
  const patience = { acquireTimeout: PATIENCE.maxWait, connectTimeout: PATIENCE.maxWait };
  // The payloads of the contract hold backslashes and quotes: a driver that escapes them by itself would let them out.
  const session = { sessionVariables: { sql_mode: 'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES' } };
  const pool = createPool({ ...given, ...patience, ...session, allowPublicKeyRetrieval: true });
  return opened(new MysqlPrismaClient({ adapter: new PrismaMariaDb(pool), transactionOptions: PATIENCE }), pool);
}

async function opened(prisma: Client, pool: Pool | ReturnType<typeof createPool>) {
  return {
    dataLayer: prismaLayer(prisma, pool),
    outside: prisma,
    transaction: <T>(work: (tx: Transaction) => Promise<T>) => prisma.$transaction(work),
    insert: (tx: Transaction, id: number) => tx.contractRow.create({ data: { id } }),
    rows: async () => (await prisma.contractRow.findMany()).map(({ id }) => id),
    async close() {
      await prisma.$disconnect();
      await pool.end();
    },
  };
}

const create = ({ outside }: { outside: object }, sql: string) => (outside as Client).$executeRawUnsafe(sql);

describeWith('postgres', 'Prisma', () => {
  describeDataLayer('Prisma on PostgreSQL', dataLayerHarness('postgres', openPostgres, create));
});
describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, kind, () => {
    describeDataLayer(`Prisma on ${kind}`, dataLayerHarness(kind, openMysql, create));
  });
});
