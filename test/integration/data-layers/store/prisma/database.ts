import { PrismaPg } from '@prisma/adapter-pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { Pool } from 'pg';
import { PrismaClient } from './generated/prisma/client.js';

export const pool = new Pool({ connectionString: process.env['DATABASE_URL'] });
export const prisma = new PrismaClient({ adapter: new PrismaPg(pool) });
export const dataLayer = prismaLayer(prisma, pool);

declare module 'nestjs-outbox' {
  interface Register {
    dataLayer: typeof dataLayer;
  }
}
