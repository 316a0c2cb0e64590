import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { isInTransaction } from '../../transaction/sql-boundary.js';
import { withoutStatement } from '../drivers/mysql-connection.js';
import { ConnectionWatch } from '../library/connection-watch.js';
import type { Answer, Command, Connection, DriverError } from './mariadb.js';

const watches = new WeakMap<object, MariadbWatch>();

/** Of a connection of the driver mariadb, from now on. */
export function watchMariadb(connection: object): ConnectionWatch {
  const watch = watches.get(connection) ?? new MariadbWatch(connection as Connection);
  watches.set(connection, watch);
  return watch;
}

/** What commands other than statements are written of: a statement is prepared before it is executed. */
const TEXTS: Readonly<Record<string, string>> = { Prepare: '', Ping: '', Reset: 'rollback', ChangeUser: 'rollback' };

/** As mysql2 reads, whatever the application's connections are told. */
const AS_WE_READ = {
  ...{ rowsAsArray: true, nestTables: false, metaAsArray: false, namedPlaceholders: false, typeCast: undefined },
  ...{ supportBigNumbers: true, checkNumberRange: false, bitOneIsBoolean: false, logParam: false },
};

class MariadbWatch extends ConnectionWatch {
  isActive = false;
  private isOurs = false;
  private readonly seen = new WeakSet<object>();

  constructor(readonly connection: Connection) {
    super(true); // no command goes past it, so nobody counts bytes
    let add = connection.addCommand;
    const get = (): Connection['addCommand'] => {
      const now = add; // an import of a file keeps it, and has another one in its place meanwhile
      return (command, expects) =>
        this.taken(command, () => (connection.isValid() ? now : add).call(connection, command, expects));
    };
    Object.defineProperty(connection, 'addCommand', { get, set: (other: typeof add) => (add = other) });
  }

  run({ statement, values }: Sql): Promise<SqlResult> {
    return this.asOurs(() => this.query({ sql: statement.questionMarks, values, opts: AS_WE_READ })).then(
      (result) => {
        if (Array.isArray(result)) return { rows: result as unknown[][], affected: result.length };
        const inTransaction = isInTransaction(this.connection.info.status);
        return { rows: [], affected: (result as Answer).affectedRows ?? 0, inTransaction };
      },
      (error: DriverError) => Promise.reject(withoutValues(error)),
    );
  }

  send(text: string): Promise<unknown> {
    return this.query({ sql: text });
  }

  protected rollBack(): Promise<unknown> {
    return this.asOurs(() => this.send('rollback'));
  }

  private query(command: object): Promise<unknown> {
    return new Promise((resolve, reject) => this.connection.query(command, resolve, reject));
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
    const { name } = command.constructor;
    if (this.isOurs || name === 'ClosePrepare' || this.seen.has(command)) return send();
    this.seen.add(command); // what waited for an import comes twice
    const text = TEXTS[name] ?? command.sql ?? '';
    const isPlain = this.isNothing(text);
    const { resolve, reject } = command;
    let result: unknown;
    const answered = this.through(text, undefined, () => {
      const told = new Promise<unknown>((done, failed) => {
        let status: number | undefined;
        // By the time that the driver calls back it may have read the next answer.
        command.once('end', () => (status = this.connection.info.status));
        command.resolve = (answer) => {
          result = answer;
          done(text === '' ? undefined : this.told(status));
          if (isPlain) resolve(answer);
        };
        command.reject = (error) => {
          failed(error);
          if (isPlain) reject(error);
        };
      });
      send();
      return told;
    });
    answered.then(
      () => isPlain || resolve(result),
      (error: Error) => isPlain || reject(error),
    );
  }

  private told(serverStatus: number | undefined): object {
    const isActive = isInTransaction(serverStatus) ?? this.isActive;
    if (isActive && !this.isActive && this.state.ended) this.state.begin(); // by no BEGIN of its own: autocommit is off
    this.isActive = isActive;
    return { serverStatus };
  }
}

/** The driver puts the statement with its values into the text, and a state of the server's on errors of its own. */
function withoutValues({ message, sqlMessage, errno, code, sqlState, fatal }: DriverError): Error {
  const isOwn = errno > 45_000 && errno < 46_000;
  const error = Object.assign(new Error(sqlMessage ?? message), { errno, code, fatal });
  return withoutStatement(Object.assign(error, isOwn ? {} : { sqlState }) as never);
}
