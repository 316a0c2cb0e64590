import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort, placed, runCommand, UNPRIVILEGED } from '../../../bench/support/own-server.js';
import { PASSWORD } from './database.js';
import { ADMIN, MysqlSessions } from './mysql-sessions.js';
import { copyFolder, Twins, type Twin } from './twins.js';

const START_TIMEOUT = 60_000;
const PROGRAM = existsSync('/usr/sbin/mariadbd') ? '/usr/sbin/mariadbd' : 'mariadbd';

const LOG_SIZE = '--innodb-log-file-size=512M';
/** Of one with a replica, which is copied as a whole. */
const REPLICATED = [
  '--innodb-log-file-size=96M',
  '--log-bin=binary',
  '--relay-log=relay',
  '--log-slave-updates',
  '--binlog-format=row',
  '--sync-binlog=1',
  '--skip-slave-start',
];

/** A MariaDB of our own, durable at every commit as it is by default. */
export class ChaosMariadb extends MysqlSessions implements Twin {
  private server: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly folder: string,
    private readonly flags: readonly string[],
  ) {
    super();
  }

  private static async place(flags: readonly string[]): Promise<ChaosMariadb> {
    const folder = mkdtempSync(join(tmpdir(), 'mariadb-'));
    if (UNPRIVILEGED.uid !== undefined) chownSync(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
    const port = await freePort();
    return new ChaosMariadb(port, folder, [...flags, `--server-id=${port}`]);
  }

  static async open(flags: readonly string[] = [LOG_SIZE]): Promise<ChaosMariadb> {
    const database = await ChaosMariadb.place(flags);
    const { folder, init } = database;
    const data = `--datadir=${database.data}`;
    runCommand(
      'mariadb-install-db',
      ['--no-defaults', data, '--auth-root-authentication-method=normal', '--skip-test-db'],
      folder,
    );
    writeFileSync(init, ADMIN.map((statement) => `${statement};\n`).join(''));
    await database.start();
    rmSync(init);
    await database.fill();
    return database;
  }

  /** With an asynchronous replica. */
  static async openTwins(): Promise<Twins> {
    return Twins.open(await ChaosMariadb.open(REPLICATED), await ChaosMariadb.place(REPLICATED));
  }

  get data(): string {
    return join(this.folder, 'data');
  }
  /** What it runs at its first start. */
  private get init(): string {
    return join(this.folder, 'init.sql');
  }

  async shutDown(): Promise<void> {
    this.leave();
    await this.end('SIGTERM');
  }

  copyFrom(data: string): Promise<void> {
    return copyFolder(data, this.data);
  }

  async follow(port: number): Promise<void> {
    await this.start();
    await this.promote();
    await this.query('set global gtid_slave_pos = @@gtid_binlog_pos');
    await this.query(`change master to master_host = '127.0.0.1', master_port = ${port}, master_user = 'admin',
      master_password = '${PASSWORD}', master_use_gtid = slave_pos, master_connect_retry = 1`);
    await this.query('start slave');
  }

  async promote(): Promise<void> {
    await this.query('stop slave');
    await this.query('reset slave all');
  }

  async position(): Promise<string> {
    return (await this.query('select @@gtid_binlog_pos'))[0]?.[0] as string;
  }

  async has(position: string): Promise<boolean> {
    return (await this.query(`select master_gtid_wait('${position}', 1)`))[0]?.[0] === '0';
  }

  protected async end(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const { server } = this;
    this.server = undefined;
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill(signal);
    await exited;
  }

  protected clear(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  protected async bringUp(): Promise<void> {
    const { folder, port, flags, init } = this;
    const log = openSync(join(folder, 'log'), 'a');
    const server = spawn(
      PROGRAM,
      [
        '--no-defaults',
        `--datadir=${this.data}`,
        `--socket=${join(folder, 'socket')}`,
        `--pid-file=${join(folder, 'pid')}`,
        `--port=${port}`,
        '--bind-address=127.0.0.1',
        '--innodb-buffer-pool-size=512M',
        '--innodb-flush-log-at-trx-commit=1',
        ...flags,
        ...(existsSync(init) ? [`--init-file=${init}`] : []),
      ],
      { ...placed(folder), detached: true, stdio: ['ignore', log, log], ...UNPRIVILEGED },
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
}
