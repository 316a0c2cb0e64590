import { createConnection, type Connection } from 'mysql2/promise';
import { PASSWORD, USERS, type DatabaseServer, type Place } from './database.js';
import { OwnServer } from './own-server.js';

const TABLES = [
  'create table chaos.orders (writer int not null, n int not null, placed int not null, primary key (writer, n)) engine = innodb',
  'create table chaos.truth (writer int not null, n int not null, began bigint not null, messages text character set ascii not null, primary key (writer, n)) engine = innodb',
  `create table chaos.lease_log (id bigint not null auto_increment primary key, at timestamp(6) not null,
    transport smallint not null, bucket smallint not null, owner varchar(64), epoch bigint not null) engine = innodb`,
];
const TRIGGER = `create trigger chaos.log_lease after update on chaos.outbox_leases for each row
  if not (old.owner <=> new.owner) or old.epoch <> new.epoch then
    insert into chaos.lease_log (at, transport, bucket, owner, epoch) values (sysdate(6), new.transport, new.bucket, new.owner, new.epoch);
  end if`;

/** The harness may all; the others have no right that would let them write while the server is read-only. */
export const ADMIN = [
  'create database if not exists chaos',
  `create user if not exists admin@'127.0.0.1' identified by '${PASSWORD}'`,
  `grant all on *.* to admin@'127.0.0.1' with grant option`,
];

/** Above all that are given out. */
const NO_NUMBER = '9000000000000000000';

/** What MariaDB and MySQL have in common: all but how they are started and ended. */
export abstract class MysqlSessions extends OwnServer implements DatabaseServer {
  abstract readonly port: number;
  version = '';
  private session: Promise<Connection> | undefined;
  private holder: Connection | undefined;
  private locker: Connection | undefined;

  url(user: string, port = this.port): string {
    return `mysql://${user}:${PASSWORD}@127.0.0.1:${port}/chaos`;
  }

  async query(sql: string): Promise<(string | null)[][]> {
    const session = (this.session ??= this.connect(() => (this.session = undefined)));
    try {
      const [rows] = await (await session).query(sql);
      if (!Array.isArray(rows)) return [];
      const text = (value: unknown): string | null => (value === null ? null : String(value));
      return (rows as unknown as unknown[][]).map((row) => row.map(text));
    } catch (error) {
      if (this.session === session) this.session = undefined;
      session.then((open) => open.destroy()).catch(() => undefined);
      throw error;
    }
  }

  async watchLeases(): Promise<void> {
    await this.query(TRIGGER);
  }

  async kill(): Promise<void> {
    this.leave();
    await this.end();
  }

  /** The session of the harness ends, so that the next question opens another. */
  protected leave(): void {
    this.session?.then((open) => open.destroy()).catch(() => undefined);
    this.session = undefined;
  }

  async readOnly(on: boolean): Promise<void> {
    await this.query(`set global read_only = ${on ? 1 : 0}`);
  }

  async holdSnapshot(on: boolean): Promise<void> {
    this.holder?.destroy();
    this.holder = undefined;
    if (!on) return;
    const holder = (this.holder = await this.connect());
    await holder.query('start transaction with consistent snapshot');
  }

  async emptyReady(): Promise<(string | null)[][]> {
    const session = await this.connect();
    try {
      await session.query('lock tables chaos.outbox_ready write');
      const [rows] = await session.query('select transport, left(payload, 30) from chaos.outbox_ready');
      await session.query('truncate table chaos.outbox_ready');
      return rows as unknown as (string | null)[][];
    } finally {
      session.destroy();
    }
  }

  /** By a lock on the gap behind the bucket's last row. Rows that nobody else sees bound it, so that other buckets go on. */
  async holdInserts(place: Place | undefined): Promise<void> {
    this.locker?.destroy();
    this.locker = undefined;
    if (place === undefined) return;
    const { transport, bucket } = place;
    const locker = (this.locker = await this.connect());
    await locker.query('start transaction');
    await locker.query(
      `insert into chaos.outbox_ready (transport, bucket, seq, topic) values (${transport}, ${bucket}, 1, 'bound'), (${transport}, ${bucket + 1}, 2, 'bound')`,
    );
    await locker.query(
      `select 1 from chaos.outbox_ready where transport = ${transport} and bucket = ${bucket} and seq = ${NO_NUMBER} for update`,
    );
  }

  async leaseAhead(owner: string): Promise<void> {
    for (const table of ['leases', 'instances'])
      await this.query(
        `update chaos.outbox_${table} set expires_at = utc_timestamp(6) + interval 1 day where owner = '${owner}'`,
      );
  }

  async terminate(user: string): Promise<void> {
    for (const [id] of await this.query(`select id from information_schema.processlist where user = '${user}'`)) {
      await this.query(`kill ${id}`).catch(() => undefined); // it may be gone by now
    }
  }

  /** Users and tables, once. */
  protected async fill(): Promise<void> {
    for (const user of USERS) {
      await this.query(`create user ${user}@'127.0.0.1' identified by '${PASSWORD}'`);
      await this.query(`grant all on chaos.* to ${user}@'127.0.0.1'`);
    }
    for (const table of TABLES) await this.query(table);
    this.version = (await this.query('select version()'))[0]?.[0] as string;
  }

  /** Of the server's process: nothing flushed, no goodbye. */
  protected abstract end(): Promise<void>;

  private async connect(lost: () => void = () => undefined): Promise<Connection> {
    const connection = await createConnection({
      uri: this.url('admin'),
      connectTimeout: 3_000,
      rowsAsArray: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
      dateStrings: true,
    });
    connection.on('error', lost);
    return connection;
  }
}
