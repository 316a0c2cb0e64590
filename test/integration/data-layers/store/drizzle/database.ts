import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core';
import { drizzleLayer } from 'nestjs-outbox/drizzle';
import { Pool } from 'pg';
import type { OrderItem } from './order.js';

export const products = pgTable('products', {
  id: text().primaryKey(),
  price: integer().notNull(),
  inStock: integer('in_stock').notNull(),
  reserved: integer().notNull().default(0),
});
export const orders = pgTable('orders', {
  id: text().primaryKey(),
  userId: text('user_id').notNull(),
  items: jsonb().$type<OrderItem[]>().notNull(),
  total: integer().notNull(),
});
export const handledMessages = pgTable('handled_messages', { id: uuid().primaryKey() });

export const db = drizzle(new Pool({ connectionString: process.env['DATABASE_URL'] }));
export const dataLayer = drizzleLayer(db);

declare module 'nestjs-outbox' {
  interface Register {
    dataLayer: typeof dataLayer;
  }
}
