import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import type { DriverConnection } from '../../transaction/transaction-watch.js';
import { ConnectionWatch } from './connection-watch.js';
import { RAW } from '../drivers/postgres-connection.js';
import { runOnPostgres } from '../drivers/postgres-executor.js';

type Done = (error: unknown, result?: unknown) => void;
type Query = (config: unknown, values?: unknown, done?: unknown) => unknown;
/** A client of pg, of any release. */
interface Client extends DriverConnection {
  query: Query;
  on(event: 'error', listener: () => void): unknown;
  readonly connection?: {
    prependListener(event: 'readyForQuery', listener: (message?: { status?: string }) => void): void;
  };
}
interface Config {
  readonly text?: unknown;
  readonly values?: unknown;
  readonly types?: unknown;
  readonly callback?: unknown;
  readonly submit?: unknown;
}
interface Submittable extends Config {
  handleReadyForQuery(...args: unknown[]): void;
  handleError(error: Error, ...args: unknown[]): void;
}

/** Of a client of pg, from now on. */
export const watchPostgres = (client: object): ConnectionWatch => new PostgresWatch(client as Client);

class PostgresWatch extends ConnectionWatch {
  private readonly query: Query;

  constructor(readonly client: Client) {
    const told = teller(client);
    super(false, () => told);
    const original = client.query;
    this.query = (...args) => original.apply(client, args);
    client.query = (...args) => this.heard(...args);
    // The server may end it in the middle of a transaction: the statement in hand fails by itself.
    client.on('error', () => undefined);
  }

  get isActive(): boolean {
    const status = this.driver()?.getTransactionStatus?.();
    return status === 'T' || status === 'E';
  }

  run(sql: Sql): Promise<SqlResult> {
    return runOnPostgres(this.client, sql);
  }

  send(text: string): Promise<unknown> {
    return this.client.query(text) as Promise<unknown>;
  }

  /** As the driver takes it: a text or a config, with values and a callback in its place, behind it or in the config. */
  private heard(config: unknown, values?: unknown, done?: unknown): unknown {
    const given = (typeof config === 'object' ? config : { text: config }) as Config | null;
    if (given === null || given.types === RAW) return this.query(config, values, done); // ours
    const { text, submit } = given;
    if (this.isNothing(text)) return this.query(config, values, done);
    if (typeof submit === 'function') return this.submitted(given as Submittable, values, done);
    const callback = [values, done, given.callback].find((one) => typeof one === 'function') as Done | undefined;
    const parameters = Array.isArray(values) ? (values as unknown[]) : given.values;
    if (callback === undefined) {
      return this.through(text, parameters, () => this.query(config, values) as Promise<unknown>);
    }
    const answer = this.through(text, parameters, () => this.promised(config, parameters));
    answer.then(
      (result) => queueMicrotask(() => callback(null, result)), // what it throws is nobody's answer
      (error: unknown) => queueMicrotask(() => callback(error)),
    );
    return undefined;
  }

  /** A query of the application's own making, such as a cursor: its answer is what the driver tells it. */
  private submitted(query: Submittable, values: unknown, done: unknown): unknown {
    let isSent = false;
    const answer = this.through(query.text, query.values, () => {
      isSent = true;
      const answered = new Promise<void>((resolve, reject) => {
        const { handleReadyForQuery, handleError } = query;
        query.handleReadyForQuery = (...args) => {
          resolve();
          handleReadyForQuery.apply(query, args);
        };
        query.handleError = (error, ...args) => {
          reject(error);
          handleError.call(query, error, ...args);
        };
      });
      this.query(query, values, done);
      return answered;
    });
    answer.catch((error: Error) => isSent || query.handleError(error, this.client.connection));
    return query;
  }

  private promised(config: unknown, parameters: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.query(config, parameters, (error: unknown, result: unknown) => {
        if (error === null || error === undefined) resolve(result);
        else reject(error as Error);
      });
    });
  }
}

/** What the server said with its last answer: releases before 8.23 hear it, and do not keep it. */
function teller(client: Client): DriverConnection {
  if (client.getTransactionStatus !== undefined) return client;
  let status: string | undefined;
  client.connection?.prependListener('readyForQuery', (message) => {
    status = message?.status;
  });
  return {
    getTransactionStatus: () => status,
    end: () => client.end?.(),
    get readyForQuery() {
      return client.readyForQuery === true;
    },
  };
}
