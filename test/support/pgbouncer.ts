import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort, makeFolder, onceAtExit, UNPRIVILEGED } from '../../bench/support/own-server.js';

const PROGRAM = process.env['OUTBOX_TEST_PGBOUNCER'] ?? '/usr/sbin/pgbouncer';

export type PoolMode = 'session' | 'transaction' | 'statement';

/** A PgBouncer of one test, in front of a server. */
export class PgBouncer {
  static readonly isInstalled = existsSync(PROGRAM);

  /** From 1.24 with its defaults: a statement that a client prepared is there in whatever session it gets. */
  static get keepsStatements(): boolean {
    const [, minor] = /PgBouncer 1\.(\d+)/.exec(execFileSync(PROGRAM, ['--version'], { encoding: 'utf8' })) ?? [];
    return Number(minor) >= 24;
  }

  private constructor(
    readonly port: number,
    /** Ends at once. */
    readonly stop: () => void,
  ) {}

  /**
   * @param server `postgres://user@host:port/…`; every database of it, as this user
   * @param sessions of the server for each database at most
   */
  static async start(server: string, mode: PoolMode, sessions = 8): Promise<PgBouncer> {
    const { hostname, port: behind, username } = new URL(server);
    const folder = makeFolder('pgbouncer');
    const port = await freePort();
    const settings = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'any',
      pool_mode: mode,
      max_client_conn: 200,
      default_pool_size: sessions,
      server_login_retry: 1,
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    const file = join(folder, 'pgbouncer.ini');
    const databases = `* = host=${hostname} port=${behind || 5432} user=${username}`;
    writeFileSync(file, `[databases]\n${databases}\n[pgbouncer]\n${lines.join('\n')}\n`);
    const child = spawn(PROGRAM, ['-q', file], { cwd: folder, stdio: 'ignore', ...UNPRIVILEGED });
    child.unref();
    const stop = onceAtExit(() => {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    });
    for (const deadline = Date.now() + 60_000; !(await answers(port)); await pause(20)) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error('PgBouncer did not start');
    }
    return new PgBouncer(port, stop);
  }

  /** The same database through the pooler. */
  through(url: string): string {
    const pooled = new URL(url);
    pooled.host = `127.0.0.1:${this.port}`;
    return pooled.href;
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return once(socket, 'connect')
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy());
}
