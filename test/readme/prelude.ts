/** What the reader of a fragment knows from around it. Blocks that are whole files (`// src/…`) import everything themselves. */
export const PRELUDE = `
import type { INestApplication } from '@nestjs/common';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import type { OutboxService as Service, OutboxAdmin, OutboxDispatcher, OutboxCleaner, OutboxUnlocker, TransportOption } from 'nestjs-outbox';
import type { ReceivedMessage } from 'nestjs-outbox/consumer';
import type { InboxService } from 'nestjs-outbox/inbox';
import type { Order } from './src/orders/order.entity.js';

declare global {
  const Module: typeof import('@nestjs/common').Module;
  const Injectable: typeof import('@nestjs/common').Injectable;
  const OutboxModule: typeof import('nestjs-outbox').OutboxModule;
  const kafka: typeof import('nestjs-outbox/kafka').kafka;
  const app: INestApplication;
  const dataSource: DataSource;
  const manager: EntityManager;
  const queryRunner: QueryRunner;
  const outbox: Service;
  const inbox: InboxService;
  const received: ReceivedMessage<{ revision: number }>;
  const admin: OutboxAdmin;
  const dispatcher: OutboxDispatcher;
  const unlocker: OutboxUnlocker;
  const cleaner: OutboxCleaner;
  const transports: Record<string, TransportOption>;
  const order: Order;
}
`;
