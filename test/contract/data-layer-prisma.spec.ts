import { PrismaPg } from '@prisma/adapter-pg';
import { Pool } from 'pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { describeDataLayerContract } from 'nestjs-outbox/testing';
import { dataLayerHarness, unshaken } from '../support/data-layer.js';
import { PrismaClient, type Client, type Transaction } from '../support/prisma/client.js';
import { describeWith } from '../support/services.js';

/** Milliseconds: 200 transactions share five connections, on a machine that may be busy. */
const PATIENCE = { maxWait: 300_000, timeout: 300_000 };

async function open(connectionString: string, max: number) {
  const pool = unshaken(new Pool({ connectionString, max }));
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool) });
  return {
    dataLayer: prismaLayer(prisma, pool),
    outside: prisma,
    transaction: <T>(work: (tx: Transaction) => Promise<T>) => prisma.$transaction(work, PATIENCE),
    insert: (tx: Transaction, id: number) => tx.contractRow.create({ data: { id } }),
    rows: async () => (await prisma.contractRow.findMany()).map(({ id }) => id),
    async close() {
      await prisma.$disconnect();
      await pool.end();
    },
  };
}

describeWith('postgres', 'Prisma', () => {
  const create = ({ outside }: { outside: object }, sql: string) => (outside as Client).$executeRawUnsafe(sql);
  describeDataLayerContract('Prisma on PostgreSQL', dataLayerHarness('postgres', open, create));
});
