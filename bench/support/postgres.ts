import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { freePort, makeFolder, onceAtExit, runCommand, UNPRIVILEGED, type OwnServer } from './own-server.js';
import type { Closing } from './run.js';

/** As in the research that the targets come from. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  wal_level: 'logical',
  fsync: 'on',
  max_connections: '100',
  dynamic_shared_memory_type: 'mmap', // inside its folder, so that nothing is left when it is killed
};
/** A flush on a tmpfs costs nothing. This makes the leader of a group commit sleep 0.8 ms, a good disk's fdatasync. */
export const SLOW_FLUSH = { commit_delay: '800', commit_siblings: '0' };

export const LOGGED = { log_statement: 'all', log_line_prefix: '%a\\|' };

/** Of a server that is {@link LOGGED}: what sessions of the relay sent, such as `nestjs-outbox|LOG:  execute outbox_fetch: select …`. */
export function statementsOf({ folder }: OwnServer): string[] {
  const lines = readFileSync(join(folder, 'log'), 'utf8').split('\n');
  return lines.filter((line) => /^nestjs-outbox\|LOG: {2}(statement|execute)/.test(line));
}

/** A PostgreSQL of our own on a tmpfs. */
export async function startPostgres(closing: Closing, settings: Record<string, string> = {}): Promise<OwnServer> {
  const bin = findBin();
  const folder = makeFolder('pg');
  const data = join(folder, 'data');
  const control = join(bin, 'pg_ctl');
  const stop = onceAtExit(() => {
    spawnSync(control, ['-D', data, '-m', 'immediate', 'stop'], { cwd: folder, ...UNPRIVILEGED });
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  closing.add(stop);
  runCommand(join(bin, 'initdb'), ['-D', data, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--locale=C'], folder);
  const port = String(await freePort());
  const all = { port, unix_socket_directories: folder, ...SETTINGS, ...settings };
  const flags = Object.entries(all).map(([name, value]) => `-c ${name}=${value}`);
  runCommand(control, ['-D', data, '-w', '-l', join(folder, 'log'), '-o', flags.join(' '), 'start'], folder);
  const pid = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, pid, folder, stop };
}

/** An own session beside what is measured. */
export async function adminClient(closing: Closing, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'bench-admin' });
  client.on('error', () => undefined); // the server is stopped under it at the end
  await client.connect();
  closing.add(() => client.end());
  return client;
}

function findBin(): string {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const version = versions.find((each) => existsSync(join(root, each, 'bin', 'initdb')));
  if (version !== undefined) return join(root, version, 'bin');
  throw new Error(`A benchmark starts a PostgreSQL of its own; its binaries are not in ${root}.`);
}
