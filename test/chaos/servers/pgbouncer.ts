import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { freePort, UNPRIVILEGED } from '../../../bench/support/own-server.js';
import { PASSWORD, USERS, type DatabaseServer } from './database.js';
import { OwnServer } from './own-server.js';

const PROGRAM = '/usr/sbin/pgbouncer';
const START_TIMEOUT = 30_000;

/** A PgBouncer in transaction mode. Each user has sessions of the server's of his own, so that his can be ended alone. */
export class ChaosPgBouncer extends OwnServer {
  readonly version = /PgBouncer (\S+)/.exec(execFileSync(PROGRAM, ['--version'], { encoding: 'utf8' }))?.[1] ?? '';
  private child: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly folder: string,
  ) {
    super();
  }

  static async open(database: DatabaseServer): Promise<ChaosPgBouncer> {
    const folder = mkdtempSync(join(tmpdir(), 'pgbouncer-'));
    if (UNPRIVILEGED.uid !== undefined) chownSync(folder, UNPRIVILEGED.uid, UNPRIVILEGED.gid as number);
    const pooler = new ChaosPgBouncer(await freePort(), folder);
    writeFileSync(join(folder, 'users'), USERS.map((user) => `"${user}" "${PASSWORD}"\n`).join(''));
    const settings = {
      listen_addr: '127.0.0.1',
      listen_port: pooler.port,
      unix_socket_dir: '',
      auth_type: 'scram-sha-256',
      auth_file: join(folder, 'users'),
      pool_mode: 'transaction',
      max_client_conn: 300,
      default_pool_size: 30,
      server_login_retry: 1,
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
    const target = `* = host=127.0.0.1 port=${database.port}`;
    writeFileSync(join(folder, 'pgbouncer.ini'), `[databases]\n${target}\n[pgbouncer]\n${lines.join('')}`);
    await pooler.start();
    return pooler;
  }

  async kill(): Promise<void> {
    const { child } = this;
    this.child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  protected async bringUp(): Promise<void> {
    const { folder } = this;
    const child = spawn(PROGRAM, ['-q', join(folder, 'pgbouncer.ini')], {
      cwd: folder,
      detached: true,
      stdio: 'ignore',
      ...UNPRIVILEGED,
    });
    this.child = child;
    const kill = (): void => void child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    for (const deadline = performance.now() + START_TIMEOUT; !(await this.answers()); await pause(50)) {
      if (child.exitCode !== null || performance.now() > deadline) throw new Error('PgBouncer did not start');
    }
  }

  private async answers(): Promise<boolean> {
    const connectionString = `postgres://${USERS[0]}:${PASSWORD}@127.0.0.1:${this.port}/postgres`;
    const client = new pg.Client({ connectionString, connectionTimeoutMillis: 3_000 });
    client.on('error', () => undefined);
    const isThere = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end().catch(() => undefined);
    return isThere;
  }

  protected clear(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
