import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { isInTransaction } from '../../transaction/sql-boundary.js';
import { ConnectionWatch } from '../library/connection-watch.js';
import { hasNoAnswer, runOnMariadb, textOf, type Command, type Connection } from './mariadb-connection.js';

/** A connection of the driver mariadb, from now on. */
export class MariadbWatch extends ConnectionWatch {
  isActive = false;
  private isOurs = false;
  private readonly seen = new WeakSet<object>();

  constructor(readonly connection: Connection) {
    super(true); // no command goes past it, so nobody counts bytes
    let add = connection.addCommand;
    const get = (): typeof add => {
      const now = add; // an import of a file keeps it, and has another one in its place meanwhile
      return (command, expects) =>
        this.taken(command, () => (connection.isValid() ? now : add).call(connection, command, expects));
    };
    const set = (other: typeof add): void => {
      add = other;
    };
    Object.defineProperty(connection, 'addCommand', { get, set });
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.asOurs(() => runOnMariadb(this.connection, sql));
  }

  send(text: string): Promise<unknown> {
    return new Promise((resolve, reject) => this.connection.query({ sql: text }, resolve, reject));
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

  private taken(command: Command, send: () => void): void {
    if (this.isOurs || this.seen.has(command) || hasNoAnswer(command)) return send();
    this.seen.add(command); // what waited for an import comes twice
    const text = textOf(command);
    this.isNothing(text); // tells who asks for this connection
    const { resolve, reject } = command;
    const answered = this.through(text, undefined, () => {
      const told = new Promise<unknown>((done, failed) => {
        let status: number | undefined;
        // When the driver calls back it may have read the next answer.
        command.once('end', () => (status = this.connection.info.status));
        command.resolve = (result) => done({ result, serverStatus: text === '' ? undefined : this.told(status) });
        command.reject = failed;
      });
      send();
      return told;
    });
    answered.then((answer) => resolve((answer as { result: unknown }).result), reject);
  }

  private told(status: number | undefined): number | undefined {
    const isActive = isInTransaction(status) ?? this.isActive;
    if (isActive && !this.isActive && this.state.ended) this.state.begin(); // by no BEGIN of its own: autocommit is off
    this.isActive = isActive;
    return status;
  }
}
