import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createConnection } from 'mysql2/promise';
import {
  freePort,
  killAndRemove,
  makeFolder,
  onceAtExit,
  placed,
  runCommand,
  UNPRIVILEGED,
} from '../../bench/support/own-server.js';
import { canStartMysql, startOwnMysql } from './mysql-node.js';
import { describeUnlessMissing, MYSQL_FAMILY, type Program } from './services.js';

/** A server of one test, for settings that are the whole server's, and for a second one beside it. */
export interface OwnDatabase {
  readonly url: string;
  stop(): void;
}

const POSTGRES = '/usr/lib/postgresql';
const MARIADB = '/usr/sbin/mariadbd';

function postgresBin(): string | undefined {
  const versions = existsSync(POSTGRES) ? readdirSync(POSTGRES).sort((a, b) => Number(b) - Number(a)) : [];
  const version = versions.find((each) => existsSync(join(POSTGRES, each, 'bin', 'initdb')));
  return version === undefined ? undefined : join(POSTGRES, version, 'bin');
}

/** Of the server's own version: `pg_dump` refuses a newer server. */
export const postgresProgram = (name: string): string => join(postgresBin() as string, name);

export const canStart = {
  postgres: postgresBin() !== undefined,
  mariadb: existsSync(MARIADB),
  mysql: canStartMysql(),
};

/** The same tests on own servers of both products; `missing`: what else they need, and is not there. */
export function describeOnOwnMysqlFamily(
  missing: readonly Program[],
  name: string,
  body: (kind: MysqlKind, start: StartNode) => void,
): void {
  const start = { mariadb: startOwnMariaDb, mysql: startOwnMysql };
  for (const kind of MYSQL_FAMILY)
    describeUnlessMissing([...(canStart[kind] ? [] : [kind]), ...missing], `${name}, on ${kind}`, () =>
      body(kind, start[kind]),
    );
}
type MysqlKind = (typeof MYSQL_FAMILY)[number];
type StartNode = (settings?: readonly string[], logs?: string) => Promise<OwnNode>;

export interface OwnPostgres extends OwnDatabase {
  /** Ends at once, without writing anything more, and starts again on what is on disk. */
  crash(): void;
  /** Another server that replays everything of this one, and takes reads only. */
  standby(): Promise<OwnDatabase>;
}

/** Takes about two seconds. Stopped at the end of the process at the latest. */
export async function startOwnPostgres(settings: Readonly<Record<string, string>> = {}): Promise<OwnPostgres> {
  const bin = postgresBin() as string;
  const folder = makeFolder('own-postgres');
  const data = join(folder, 'data');
  const fresh = ['-D', data, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  runCommand(join(bin, 'initdb'), fresh, folder);
  const primary = await runPostgres(bin, folder, settings);
  return {
    ...primary,
    crash: () =>
      runCommand(
        join(bin, 'pg_ctl'),
        ['-D', data, '-m', 'immediate', '-w', '-l', join(folder, 'log'), 'restart'],
        folder,
      ),
    async standby() {
      const copy = makeFolder('own-standby');
      const backup = ['-d', primary.url, '-D', join(copy, 'data'), '-R', '-X', 'stream', '-c', 'fast', '--no-sync'];
      runCommand(join(bin, 'pg_basebackup'), backup, copy);
      return runPostgres(bin, copy, settings);
    },
  };
}

async function runPostgres(
  bin: string,
  folder: string,
  settings: Readonly<Record<string, string>>,
): Promise<OwnDatabase> {
  const data = join(folder, 'data');
  const control = join(bin, 'pg_ctl');
  const stop = onceAtExit(() => {
    spawnSync(control, ['-D', data, '-m', 'immediate', 'stop'], { cwd: folder, ...UNPRIVILEGED });
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  const port = String(await freePort());
  const fixed = { port, unix_socket_directories: folder, listen_addresses: '127.0.0.1', shared_buffers: '16MB' };
  const all = { ...fixed, dynamic_shared_memory_type: 'mmap', ...settings };
  const flags = Object.entries(all).map(([name, value]) => `-c ${name}=${value}`);
  runCommand(control, ['-D', data, '-w', '-l', join(folder, 'log'), '-o', flags.join(' '), 'start'], folder);
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop };
}

/** A MariaDB or a MySQL. */
export interface OwnNode {
  readonly url: string;
  /** At once. Resolves when it is gone, which it is not while a disk that it writes to stands still. */
  kill(): Promise<void>;
  /** Again, after `kill`, on what is on disk. */
  restart(): Promise<void>;
  stop(): void | Promise<void>;
}

/**
 * Takes about three seconds. Stopped at the end of the process at the latest.
 * @param logs a folder on another disk, for InnoDB's log; a small one, as that disk is.
 */
export async function startOwnMariaDb(settings: readonly string[] = [], logs?: string): Promise<OwnNode & OwnDatabase> {
  const folder = makeFolder('own-mariadb');
  const [data, pid, init] = ['data', 'pid', 'init.sql'].map((name) => join(folder, name)) as [string, string, string];
  const stop = onceAtExit(() => killAndRemove(pid, folder));
  writeFileSync(
    init,
    `create database if not exists own; create user if not exists own@'127.0.0.1'; grant all on *.* to own@'127.0.0.1' with grant option;`.replaceAll(
      '; ',
      ';\n',
    ),
  );
  const elsewhere = logs === undefined ? [] : [`--innodb-log-group-home-dir=${logs}`, '--innodb-log-file-size=8M'];
  const places = [`--datadir=${data}`, ...elsewhere];
  const install = ['--no-defaults', ...places, '--auth-root-authentication-method=normal', '--skip-test-db'];
  runCommand('mariadb-install-db', install, folder);
  const port = await freePort();
  const own = [...places, `--socket=${join(folder, 'socket')}`, `--pid-file=${pid}`, `--init-file=${init}`];
  const flags = [
    '--no-defaults',
    ...own,
    `--port=${port}`,
    '--bind-address=127.0.0.1',
    '--innodb-buffer-pool-size=32M',
    ...settings,
  ];
  const url = `mysql://own@127.0.0.1:${port}/own`;
  let server = await runMariaDb(flags, folder, url);
  return {
    url,
    stop,
    async kill() {
      const gone = once(server, 'exit');
      server.kill('SIGKILL');
      await gone;
    },
    async restart() {
      server = await runMariaDb(flags, folder, url);
    },
  };
}

/** Resolves when it answers. */
async function runMariaDb(flags: readonly string[], folder: string, url: string): Promise<ChildProcess> {
  const child = spawn(MARIADB, flags, { ...placed(folder), stdio: 'ignore', ...UNPRIVILEGED });
  child.unref();
  for (const deadline = Date.now() + 60_000; ;) {
    const connection = await createConnection(url).catch(() => undefined);
    if (connection !== undefined) {
      await connection.end();
      return child;
    }
    if (child.exitCode !== null || Date.now() > deadline) throw new Error('MariaDB did not start');
    await pause(50);
  }
}
