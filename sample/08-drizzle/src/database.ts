import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { drizzle } from 'drizzle-orm/node-postgres';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { Pool } from 'pg';

const connect = () => drizzle(new Pool({ connectionString: process.env['DATABASE_URL'] }));

/** Drizzle's database as a provider, whose pool ends with the application. */
@Injectable()
export class Database implements OnApplicationShutdown {
  readonly db = connect();
  readonly dataLayer = drizzleLayer(this.db);

  async onApplicationShutdown(): Promise<void> {
    await this.db.$client.end();
  }
}

declare module 'nestjs-outbox' {
  interface Register {
    dataLayer: Database['dataLayer']; // the type of `tx`
  }
}
