import type { TypeOrmModuleOptions } from '@nestjs/typeorm';
import type { OutboxOptions } from 'nestjs-outbox';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { Order } from './orders.entities.js';

/** Under which the worker registers the Nest client. The API has none: a transport is inert until a relay runs. */
export const MAIL = 'MAIL';
export const queue = (): string => process.env['MAIL_QUEUE'] ?? 'mail';

export function database(): TypeOrmModuleOptions {
  return { type: 'mariadb', url: process.env['MARIADB_URL'] ?? '', timezone: 'Z', entities: [Order] };
}

/** The same for both; what differs is who relays. */
export function outbox(relay: boolean): OutboxOptions {
  return { relay, database: { setup: 'create' }, transports: { default: clientProxy({ client: MAIL }) } };
}
