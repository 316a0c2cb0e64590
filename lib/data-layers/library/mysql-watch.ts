import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { boundaryOf, isInTransaction } from '../../transaction/sql-boundary.js';
import { runOnMysql } from '../drivers/mysql-executor.js';
import { ConnectionWatch } from './connection-watch.js';

type Done = (error: unknown, ...answer: unknown[]) => void;
/** A command of mysql2: a query, one that was prepared, or another one such as a ping, which has no text. */
interface Command {
  readonly sql?: unknown;
  readonly statement?: { readonly query?: unknown };
  onResult?: Done;
  once(event: string, listener: () => void): unknown;
}
/** The connection behind those with promises. */
interface Connection {
  addCommand(command: Command): Command;
  query(sql: string, done: Done): unknown;
  /** It is lost. */
  readonly _fatalError?: unknown;
}

const watches = new WeakMap<object, MysqlWatch>();

/** Of a connection of mysql2, from now on. */
export function watchMysql(connection: object): MysqlWatch {
  const known = watches.get(connection);
  if (known !== undefined) return known;
  const watch = new MysqlWatch(connection as Connection);
  watches.set(connection, watch);
  return watch;
}

/** Commands without a text that end the transaction, and what is written of them. */
const ENDS: Readonly<Record<string, string>> = {
  ResetConnection: 'rollback',
  ChangeUser: 'rollback',
  Quit: 'rollback',
};

class MysqlWatch extends ConnectionWatch {
  isActive = false;
  /** The driver takes a statement of ours. */
  private isOurs = false;
  private readonly add: Connection['addCommand'];

  constructor(readonly connection: Connection) {
    super(true); // no command goes past it, so nobody counts bytes
    const { addCommand } = connection;
    // The driver puts another one in its place when the connection is lost.
    this.add = (command) =>
      (connection._fatalError ? connection : { addCommand: addCommand.bind(connection) }).addCommand(command);
    connection.addCommand = (command) => this.taken(command);
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
    if (this.isOurs) return this.add(command);
    const sql = command.sql ?? command.statement?.query ?? ENDS[command.constructor.name] ?? '';
    // The driver goes on with what it prepared as soon as it has called back.
    const isPlain = sql === '' || this.isNothing(sql);
    let isOver = false;
    command.once('end', () => {
      isOver = true;
    });
    const { onResult } = command;
    let answer: Parameters<Done> | undefined;
    const answered = this.through(sql, undefined, () => {
      const told = new Promise<unknown>((resolve, reject) => {
        if (onResult !== undefined) {
          command.onResult = (...args) => {
            answer = args;
            const [error, result] = args;
            if (error !== null && error !== undefined) reject(error as Error);
            else resolve(this.told(sql, result));
            if (isPlain) onResult.apply(command, args);
          };
        }
        // Of one that tells by events, or could not be prepared, nobody learns whether it failed: the next write asks.
        command.once('end', () => process.nextTick(() => resolve(this.ended(sql, answer))));
      });
      this.add(command);
      return told;
    });
    const callBack = (args: Parameters<Done>): void => {
      const wasCalled = isPlain && answer !== undefined;
      if (onResult !== undefined && !wasCalled) queueMicrotask(() => onResult.apply(command, args)); // what it throws is nobody's answer
    };
    answered.then(
      () => answer !== undefined && callBack(answer),
      // The driver has called back by itself for what it could not prepare.
      (error: unknown) => (answer !== undefined || !isOver) && callBack([error]),
    );
    return command;
  }

  private ended(sql: unknown, answer: unknown): void {
    if (answer !== undefined) return;
    this.state.doubtful = true;
    const boundary = boundaryOf(sql);
    if (boundary === 'commit' || boundary === 'rollback') this.isActive = false;
  }

  /** Rows tell nothing of the transaction; of several statements the last one does. */
  private told<T>(sql: unknown, result: T): T {
    const last: unknown = Array.isArray(result) ? result.at(-1) : result;
    const { affectedRows, fieldCount, serverStatus } = (last ?? {}) as Partial<Record<string, unknown>>;
    const isHeader = typeof affectedRows === 'number' && typeof fieldCount === 'number'; // no row with a column of that name
    const status = isHeader ? isInTransaction(serverStatus) : undefined;
    const isActive = status ?? (boundaryOf(sql) === 'begin' || this.isActive);
    if (isActive && !this.isActive && this.state.ended) this.state.begin(); // by no BEGIN of its own: autocommit is off
    this.isActive = isActive;
    return result;
  }
}
