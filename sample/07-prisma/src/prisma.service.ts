import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { prismaLayer } from 'nestjs-outbox/prisma';
import { Pool } from 'pg';
import { PrismaClient } from './generated/client.js'; // of `prisma generate`

/** Client and outbox have one pool. */
@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  readonly pool: Pool;

  constructor() {
    const pool = new Pool({ connectionString: process.env['DATABASE_URL'] });
    super({ adapter: new PrismaPg(pool) });
    this.pool = pool;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
    await this.pool.end();
  }
}

export const dataLayerOf = (prisma: PrismaService) => prismaLayer(prisma, prisma.pool);

declare module 'nestjs-outbox' {
  interface Register {
    dataLayer: ReturnType<typeof dataLayerOf>; // the type of `tx`
  }
}
