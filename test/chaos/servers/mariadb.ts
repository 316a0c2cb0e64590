import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createConnection, type Connection } from 'mysql2/promise';
import { freePort, runCommand, UNPRIVILEGED } from '../../../bench/support/own-server.js';
import { PASSWORD, USERS, type DatabaseServer } from './database.js';
import { OwnServer } from './own-server.js';

const START_TIMEOUT = 60_000;
const PROGRAM = existsSync('/usr/sbin/mariadbd') ? '/usr/sbin/mariadbd' : 'mariadbd';
/** The harness may all; the others have no right that would let them write while the server is read-only. */
const ADMIN = `create database if not exists chaos; create user if not exists admin@'127.0.0.1' identified by '${PASSWORD}'; grant all on *.* to admin@'127.0.0.1' with grant option;`;
const TABLES = [
  'create table chaos.orders (writer int not null, n int not null, placed int not null, primary key (writer, n)) engine = innodb',
  'create table chaos.truth (writer int not null, n int not null, began bigint not null, messages text character set ascii not null, primary key (writer, n)) engine = innodb',
  `create table chaos.lease_log (id bigint not null auto_increment primary key, at timestamp(6) not null default sysdate(6),
    transport smallint not null, bucket smallint not null, owner varchar(64), epoch bigint not null) engine = innodb`,
];
const TRIGGER = `create trigger chaos.log_lease after update on chaos.outbox_leases for each row
  if not (old.owner <=> new.owner) or old.epoch <> new.epoch then
    insert into chaos.lease_log (at, transport, bucket, owner, epoch) values (sysdate(6), new.transport, new.bucket, new.owner, new.epoch);
  end if`;

/** A MariaDB of our own, durable at every commit as it is by default. */
export class ChaosMariadb extends OwnServer implements DatabaseServer {
  version = '';
  private server: ChildProcess | undefined;
  private session: Promise<Connection> | undefined;
  private holder: Connection | undefined;

  private constructor(
    readonly port: number,
    private readonly folder: string,
  ) {
    super();
  }

  static async open(): Promise<ChaosMariadb> {
    const folder = mkdtempSync(join(tmpdir(), 'mariadb-'));
    if (UNPRIVILEGED.uid !== undefined) chownSync(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
    const database = new ChaosMariadb(await freePort(), folder);
    const data = `--datadir=${join(folder, 'data')}`;
    runCommand(
      'mariadb-install-db',
      ['--no-defaults', data, '--auth-root-authentication-method=normal', '--skip-test-db'],
      folder,
    );
    writeFileSync(join(folder, 'init.sql'), ADMIN.replaceAll('; ', ';\n'));
    await database.start();
    for (const user of USERS) {
      await database.query(`create user ${user}@'127.0.0.1' identified by '${PASSWORD}'`);
      await database.query(`grant all on chaos.* to ${user}@'127.0.0.1'`);
    }
    for (const table of TABLES) await database.query(table);
    database.version = (await database.query('select version()'))[0]?.[0] as string;
    return database;
  }

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
    const { server } = this;
    if (server === undefined) return;
    this.server = undefined;
    this.session?.then((open) => open.destroy()).catch(() => undefined);
    this.session = undefined;
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
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

  async terminate(user: string): Promise<void> {
    for (const [id] of await this.query(`select id from information_schema.processlist where user = '${user}'`)) {
      await this.query(`kill ${id}`).catch(() => undefined); // it may be gone by now
    }
  }

  protected clear(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  protected async bringUp(): Promise<void> {
    const { folder, port } = this;
    const log = openSync(join(folder, 'log'), 'a');
    const server = spawn(
      PROGRAM,
      [
        '--no-defaults',
        `--datadir=${join(folder, 'data')}`,
        `--socket=${join(folder, 'socket')}`,
        `--pid-file=${join(folder, 'pid')}`,
        `--port=${port}`,
        '--bind-address=127.0.0.1',
        '--innodb-buffer-pool-size=512M',
        '--innodb-log-file-size=512M',
        '--innodb-flush-log-at-trx-commit=1',
        `--init-file=${join(folder, 'init.sql')}`,
      ],
      { cwd: folder, detached: true, stdio: ['ignore', log, log], ...UNPRIVILEGED },
    );
    closeSync(log);
    this.server = server;
    const kill = (): void => void server.kill('SIGKILL');
    process.once('exit', kill);
    server.once('exit', () => process.off('exit', kill));
    for (const deadline = performance.now() + START_TIMEOUT; ; await pause(100)) {
      const answers = await this.query('select 1').catch(() => undefined);
      if (answers !== undefined) return;
      if (server.exitCode === null && server.signalCode === null && performance.now() < deadline) continue;
      throw new Error(`MariaDB did not start:\n${readFileSync(join(folder, 'log'), 'utf8').slice(-2_000)}`);
    }
  }

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
