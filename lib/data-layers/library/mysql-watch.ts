import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { isEnd, isInTransaction, boundaryOf } from '../../transaction/sql-boundary.js';
import type { DriverConnection } from '../../transaction/transaction-watch.js';
import { ConnectionWatch } from './connection-watch.js';
import { runOnMysql } from '../drivers/mysql-executor.js';

type Done = (error: unknown, ...answer: unknown[]) => void;
/** A command of mysql2: a query, or another one such as a ping, which has no text. */
interface Command {
  readonly sql?: unknown;
  onResult?: Done;
  once(event: string, listener: () => void): unknown;
}
/** The connection behind those with promises. */
interface Connection extends DriverConnection {
  addCommand(command: Command): Command;
  query(sql: string, done: Done): unknown;
}

const UNANSWERED = Symbol('unanswered');
const watches = new WeakMap<object, MysqlWatch>();

/** Of a connection of mysql2, from now on. */
export function watchMysql(connection: object): MysqlWatch {
  const known = watches.get(connection);
  if (known !== undefined) return known;
  const watch = new MysqlWatch(connection as Connection);
  watches.set(connection, watch);
  return watch;
}

class MysqlWatch extends ConnectionWatch {
  isActive = false;
  /** The driver takes a statement of ours. */
  private isOurs = false;
  private readonly add: Connection['addCommand'];

  constructor(readonly connection: Connection) {
    super(true, () => connection);
    const { addCommand } = connection;
    const patched = (command: Command): Command => this.taken(command);
    // The driver puts another one in its place when the connection is lost.
    this.add = (command) =>
      connection.addCommand === patched ? addCommand.call(connection, command) : connection.addCommand(command);
    connection.addCommand = patched;
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.asOurs(() => runOnMysql(this.connection, sql));
  }

  send(text: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.connection.query(text, (error, result) => {
        if (error === null || error === undefined) resolve(result);
        else reject(error as Error);
      });
    });
  }

  protected rollBack(): Promise<unknown> {
    return this.asOurs(() => this.send('rollback'));
  }

  /** The driver takes a statement at the call. */
  private asOurs<T>(statement: () => T): T {
    this.isOurs = true;
    try {
      return statement();
    } finally {
      this.isOurs = false;
    }
  }

  private taken(command: Command): Command {
    const { sql, onResult } = command;
    if (this.isOurs || typeof sql !== 'string') return this.add(command);
    if (onResult === undefined) {
      this.streamed(command, sql);
      return command;
    }
    let rest: unknown[] = [];
    const answer = this.through(sql, undefined, () => {
      const answered = new Promise<unknown>((resolve, reject) => {
        command.onResult = (error, result, ...others) => {
          if (error !== null && error !== undefined) return reject(error as Error);
          rest = others;
          this.told(sql, result);
          resolve(result);
        };
        // One that could not be prepared ends with no answer of its own: the driver calls back by itself.
        command.once('end', () => process.nextTick(resolve, UNANSWERED));
      });
      this.add(command);
      return answered;
    });
    answer.then(
      (result) => {
        if (result === UNANSWERED) this.state.doubtful = true;
        else queueMicrotask(() => onResult(null, result, ...rest)); // what it throws is nobody's answer
      },
      (error: unknown) => queueMicrotask(() => onResult(error)),
    );
    return command;
  }

  /** Of one that tells by events nobody learns whether it failed: the next write asks. */
  private streamed(command: Command, sql: string): void {
    void this.through(sql, undefined, () => {
      const ended = new Promise<void>((resolve) => {
        command.once('end', () => {
          this.state.doubtful = true;
          if (isEnd(boundaryOf(sql))) this.isActive = false;
          resolve();
        });
      });
      this.add(command);
      return ended;
    }).catch(() => undefined);
  }

  /** Rows tell nothing of the transaction; of several statements the last one does. */
  private told(sql: string, result: unknown): void {
    const last: unknown = Array.isArray(result) ? result.at(-1) : result;
    const status = isInTransaction((last as { serverStatus?: unknown } | undefined)?.serverStatus);
    if (status !== undefined) this.isActive = status;
    else if (boundaryOf(sql) === 'begin') this.isActive = true;
  }
}
