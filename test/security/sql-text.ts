import { Connection } from 'mysql2';
import pg from 'pg';
import { dialectOf, type DatabaseKind } from '../support/services.js';

interface Client {
  query(...args: unknown[]): unknown;
}

/** What both drivers' connections inherit: nothing of ours, and nothing of TypeORM's, goes around it. */
const CLIENTS = {
  postgres: pg.Client.prototype as unknown as Client,
  mysql: Object.getPrototypeOf(Connection.prototype) as Client,
};

/** The text of every statement that goes to the database from here on, as the driver gets it: without the values. */
export function recordSqlTexts(kind: DatabaseKind): { texts: Set<string>; stop(): void } {
  const texts = new Set<string>();
  const client = CLIENTS[dialectOf(kind)];
  const { query } = client;
  client.query = function (this: Client, ...args) {
    const [first] = args as [string | { text?: string; sql?: string }];
    texts.add(typeof first === 'string' ? first : (first.text ?? first.sql ?? ''));
    return query.apply(this, args);
  };
  return { texts, stop: () => void (client.query = query) };
}
