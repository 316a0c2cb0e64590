import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { boundaryOf, isEnd, isInTransaction } from '../../transaction/sql-boundary.js';
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
  /** It is lost, or ends: a `Quit` that waits for its turn does not say so. */
  readonly _fatalError?: unknown;
  readonly _closing?: unknown;
  /** Refuses what is sent then. */
  _addCommandClosedState(command: Command): Command;
}

/** Of a connection of mysql2, from now on. */
export const watchMysql = (connection: object): ConnectionWatch => new MysqlWatch(connection as Connection);

/** Commands without a text that end the transaction, and what is written of them. */
const ENDS: Readonly<Record<string, string>> = {
  ResetConnection: 'rollback',
  ChangeUser: 'rollback',
  Quit: 'rollback',
};

class MysqlWatch extends ConnectionWatch {
  isActive = false;
  private readonly add: Connection['addCommand'];

  constructor(readonly connection: Connection) {
    super(true); // no command goes past it, so nobody counts bytes
    const add = connection.addCommand.bind(connection);
    this.add = (command) =>
      connection._fatalError || connection._closing ? connection._addCommandClosedState(command) : add(command);
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

  /** The driver takes a statement at the call; by now it may refuse those of others, as the application has sent its `Quit`. */
  private asOurs<T>(statement: () => T): T {
    const { addCommand } = this.connection;
    this.connection.addCommand = this.add;
    try {
      return statement();
    } finally {
      this.connection.addCommand = addCommand;
    }
  }

  private taken(command: Command): Command {
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
            if (args[0] !== null && args[0] !== undefined) reject(args[0] as Error);
            else resolve(this.told(sql, args));
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

  /** Rows tell nothing of the transaction, whatever their columns are called; of several statements the last one without any does. */
  private told(sql: unknown, [, result, fields]: Parameters<Done>): unknown[] {
    const areSeveral = Array.isArray(fields) && (fields[0] === undefined || Array.isArray(fields[0]));
    const headers = (areSeveral ? (result as unknown[]) : [result]).filter((one) => !Array.isArray(one));
    const status = isInTransaction((headers.at(-1) as { serverStatus?: unknown } | undefined)?.serverStatus);
    const boundary = boundaryOf(sql);
    const isActive = status ?? (boundary === 'begin' || (this.isActive && !isEnd(boundary)));
    if (isActive && !this.isActive && this.state.ended) this.state.begin(); // by no BEGIN of its own: autocommit is off
    this.isActive = isActive;
    return headers;
  }
}
