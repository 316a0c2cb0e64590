import { integer, pgTable, serial, text, uuid } from 'drizzle-orm/pg-core';

export const customers = pgTable('customers', { name: text().primaryKey(), orders: integer().notNull() });

/** `number` counts the orders of a customer. */
export const orders = pgTable('orders', {
  id: serial().primaryKey(),
  customer: text().notNull(),
  number: integer().notNull(),
});

/** Each code is good for one order. */
export const coupons = pgTable('coupons', { code: text().primaryKey(), order: integer('order_id').notNull() });

/** What the handlers have done, once for each message, in the order in which they did it. */
export const letters = pgTable('letters', {
  position: serial().primaryKey(),
  messageId: uuid('message_id').notNull().unique(),
  customer: text().notNull(),
  about: text().notNull(),
});
