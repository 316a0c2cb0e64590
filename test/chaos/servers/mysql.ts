import { createConnection } from 'mysql2/promise';
import { startOwnMysql, type MysqlNode } from '../../support/mysql-node.js';
import { ADMIN, MysqlSessions } from './mysql-sessions.js';

/** As large as those of the other databases. */
const FLAGS = ['--innodb-buffer-pool-size=512M', '--innodb-redo-log-capacity=512M'];

/** A MySQL of our own, durable at every commit and with a synced binary log, as it is by default. */
export class ChaosMysql extends MysqlSessions {
  private constructor(private readonly node: MysqlNode) {
    super();
  }

  static async open(): Promise<ChaosMysql> {
    const database = new ChaosMysql(await startOwnMysql(FLAGS));
    try {
      const root = await createConnection({ uri: database.node.url });
      for (const statement of ADMIN) await root.query(statement);
      await root.end();
      await database.fill();
    } catch (error) {
      await database.remove();
      throw error;
    }
    return database;
  }

  get port(): number {
    return Number(new URL(this.node.url).port);
  }
  protected bringUp(): Promise<void> {
    return this.node.restart();
  }
  protected end(): Promise<void> {
    return this.node.kill();
  }
  protected clear(): Promise<void> {
    return this.node.stop();
  }
}
