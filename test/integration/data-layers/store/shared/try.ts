import { setTimeout as delay } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { outboxSql } from 'nestjs-outbox';
import { Client } from 'pg';
import { Mailer } from './mailer.js';
import { OrdersService } from './orders.service.js';
import { ShopModule } from './shop.module.js';
import { Stock } from './stock.js';

/** An order of the user `late` is refused at its COMMIT, after its message was written. */
const TABLES = `
  create table products (id text primary key, price int not null, in_stock int not null, reserved int not null default 0);
  insert into products values ('bowl', 500, 10), ('mouse', 120, 10);
  create table orders (id text primary key, user_id text not null, items jsonb not null, total int not null);
  create table handled_messages (id uuid primary key);
  create function refuse() returns trigger language plpgsql as $$ begin raise 'too late'; end $$;
  create constraint trigger refuse after insert on orders deferrable initially deferred
    for each row when (new.user_id = 'late') execute function refuse();
`;
const database = new Client({ connectionString: process.env['DATABASE_URL'] });
await database.connect();
await database.query(TABLES + outboxSql('postgres', { schema: 'outbox' }).up);
const rows = async (sql: string): Promise<unknown[]> =>
  (await database.query({ text: sql, rowMode: 'array' })).rows.flat();

const app = await NestFactory.createApplicationContext(ShopModule, { logger: ['error'] });
const [shop, mailer, stock] = [app.get(OrdersService), app.get(Mailer), app.get(Stock)];
const items = [
  { productId: 'bowl', quantity: 2 },
  { productId: 'mouse', quantity: 3 },
];
const order = await shop.place({ userId: 'ada', items });
const refused = await Promise.allSettled([
  shop.place({ userId: 'late', items }),
  shop.place({ userId: 'ada', items: [{ productId: 'dog', quantity: 1 }] }),
  shop.place({ userId: 'ada', items: [{ productId: 'bowl', quantity: 0 }] }),
  shop.place({ userId: 'ada', items: [] }),
]);
while ((await rows('select id from outbox.outbox_messages')).length > 0) await delay(10);
const [handled] = (await rows('select id::text from handled_messages')) as [string];
await stock.reserve(order, { id: handled }); // as a message that comes again
const said = {
  refused: refused.map((one) => one.status === 'rejected'),
  orders: await rows('select total from orders'),
  reserved: await rows('select reserved from products order by id'),
  mails: mailer.sent.filter((id) => id === order.id).length === mailer.sent.length ? mailer.sent.length : mailer.sent,
};
await app.close();
await database.end();
console.log(JSON.stringify(said));
