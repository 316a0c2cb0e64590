import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, chownSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

export interface OwnServer {
  readonly url: string;
  stop(): void;
}

/** A PostgreSQL of our own on a tmpfs, with the settings of the research this is compared with; ended by `stop`. */
export async function startPostgres(settings: Record<string, string> = {}): Promise<OwnServer> {
  const bin = findBin();
  const base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : '/tmp', 'outbox-bench-pg-'));
  const data = join(base, 'data');
  const port = await freePort();
  const root = process.getuid?.() === 0;
  if (root) chownSync(base, 65534, 65534);
  const run = (command: string, ...args: string[]): void => {
    const options = { encoding: 'utf8' as const, cwd: base, ...(root ? { uid: 65534, gid: 65534 } : {}) };
    const { status, stderr, stdout } = spawnSync(join(bin, command), args, options);
    if (status !== 0) throw new Error(`${command} failed: ${stderr}${stdout}`);
  };
  run('initdb', '-D', data, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--locale=C');
  const all = { port: String(port), listen_addresses: '127.0.0.1', unix_socket_directories: base, shared_buffers: '1GB', max_wal_size: '8GB', wal_level: 'logical', fsync: 'on', max_connections: '100', ...settings };
  const flags = Object.entries(all).map(([name, value]) => `-c ${name}=${value}`).join(' ');
  run('pg_ctl', '-D', data, '-w', '-l', join(base, 'log'), '-o', flags, 'start');
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop() {
      run('pg_ctl', '-D', data, '-m', 'immediate', 'stop');
      rmSync(base, { recursive: true, force: true });
    },
  };
}

function findBin(): string {
  const root = '/usr/lib/postgresql';
  if (existsSync(root)) {
    const version = readdirSync(root).sort((a, b) => Number(b) - Number(a)).find((each) => existsSync(join(root, each, 'bin', 'initdb')));
    if (version !== undefined) return join(root, version, 'bin');
  }
  throw new Error('No PostgreSQL server binaries found; set OUTBOX_BENCH_POSTGRES_URL to a server that may be loaded.');
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
